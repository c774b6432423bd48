#pragma once
#include "sheaf/comm/group/buffer.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/kernels/reduce_op.hpp"

namespace sheaf::comm {

// MPI_Allreduce in place, with nothing of ours around it: no fingerprint and
// no watch over peers. An average divides the sum at the end. UsageError where
// there is no MPI, for groups other than the world, and for floats in a world
// with -reproducible; alone there is nothing to do.
void plain_mpi_all_reduce(const Group& group, Buffer data, ReduceOp op);

}  // namespace sheaf::comm
