#pragma once
#include "sheaf/comm/group/buffer.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/kernels/reduce_op.hpp"

namespace sheaf::comm {

// Plain MPI_Allreduce, in place: without fingerprints and monitoring of peers.
// An average divides the sum at the end. Does nothing with one rank. Throws
// UsageError without MPI, for groups other than the world, and for floats in a
// world with -reproducible.
void plain_mpi_all_reduce(const Group& group, Buffer data, ReduceOp op);

}  // namespace sheaf::comm
