#include "sheaf/comm/transport/mpi_types.hpp"

#include <array>

namespace sheaf::comm {

MPI_Datatype mpi_type(DType dtype) {
  // In the order of DType.
  const std::array types{MPI_DOUBLE,  MPI_FLOAT,   MPI_UINT16_T, MPI_UINT16_T,
                         MPI_INT64_T, MPI_INT32_T, MPI_INT16_T,  MPI_INT8_T,
                         MPI_UINT8_T, MPI_C_BOOL};
  static_assert(types.size() == kDTypeCount);
  return types[static_cast<std::size_t>(dtype)];
}

MPI_Op mpi_op(ReduceOp op, DType dtype) {
  // In the order of ReduceOp.
  const std::array logical{MPI_LOR, MPI_LOR,  MPI_LAND, MPI_LAND,
                           MPI_LOR, MPI_LAND, MPI_LOR,  MPI_LXOR};
  const std::array numeric{MPI_SUM, MPI_SUM,  MPI_PROD, MPI_MIN,
                           MPI_MAX, MPI_BAND, MPI_BOR,  MPI_BXOR};
  static_assert(logical.size() == kReduceOpCount &&
                numeric.size() == kReduceOpCount);
  const auto place = static_cast<std::size_t>(op);
  return dtype == DType::kBool ? logical[place] : numeric[place];
}

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text;
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace sheaf::comm
