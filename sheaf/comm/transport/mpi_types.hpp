#pragma once
// Maps element types and reductions to MPI. Only mpi_*.cpp may include this
// header, and it is not installed: programs that link Sheaf do not need the MPI
// headers.

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <array>
#include <string>

#include "sheaf/base/dtype.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"

namespace sheaf::comm {

// MPI has no 16-bit floats; they are sent as 16-bit integers.
inline MPI_Datatype mpi_type(DType dtype) {
  // In the order of DType.
  const std::array types{MPI_DOUBLE,  MPI_FLOAT,   MPI_UINT16_T, MPI_UINT16_T,
                         MPI_INT64_T, MPI_INT32_T, MPI_INT16_T,  MPI_INT8_T,
                         MPI_UINT8_T, MPI_C_BOOL};
  static_assert(types.size() == kDTypeCount);
  return types[static_cast<std::size_t>(dtype)];
}

// The built-in MPI reduction, for types that MPI supports. Booleans use logical
// operations. MPI has no average: kAvg maps to the sum.
inline MPI_Op mpi_op(ReduceOp op, DType dtype) {
  // In the order of ReduceOp.
  const std::array logical{MPI_LOR, MPI_LOR,  MPI_LAND, MPI_LAND,
                           MPI_LOR, MPI_LAND, MPI_LOR,  MPI_LXOR};
  const std::array numeric{MPI_SUM, MPI_SUM,  MPI_PROD, MPI_MIN,
                           MPI_MAX, MPI_BAND, MPI_BOR,  MPI_BXOR};
  static_assert(logical.size() == kReduceOpCount &&
                numeric.size() == kReduceOpCount);
  const auto index = static_cast<std::size_t>(op);
  return dtype == DType::kBool ? logical[index] : numeric[index];
}

inline std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text;
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace sheaf::comm
