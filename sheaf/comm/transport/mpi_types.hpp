#pragma once
// Maps element types and reductions to MPI. Only mpi_*.cpp may include this
// header, and it is not installed: programs that link Sheaf do not need the MPI
// headers.

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <string>

#include "sheaf/base/dtype.hpp"
#include "sheaf/comm/kernels/reduce_op.hpp"

namespace sheaf::comm {

// MPI has no 16-bit floats; they are sent as 16-bit integers.
MPI_Datatype mpi_type(DType dtype);

// The built-in MPI reduction, for types that MPI supports. Booleans use logical
// operations. MPI has no average: kAvg maps to the sum.
MPI_Op mpi_op(ReduceOp op, DType dtype);

std::string mpi_error_text(int code);

}  // namespace sheaf::comm
