#pragma once
// Sheaf's element types and reductions in MPI's words. Only mpi_*.cpp may
// include it, and it is not installed: a program that links Sheaf need not
// know MPI.

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <string>

#include "sheaf/base/dtype.hpp"
#include "sheaf/comm/kernels/reduce_op.hpp"

namespace sheaf::comm {

// MPI has no 16-bit floats: they travel as 16-bit integers.
MPI_Datatype mpi_type(DType dtype);

// MPI's own reduction, for types that MPI knows. Bools are reduced logically;
// MPI has no average, kAvg gives the sum.
MPI_Op mpi_op(ReduceOp op, DType dtype);

std::string mpi_error_text(int code);

}  // namespace sheaf::comm
