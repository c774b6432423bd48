#pragma once
// Selects NCCL for a world; nccl.hpp has the operations.

#include "sheaf/comm/group/group.hpp"

namespace sheaf::tensor::nccl {

// Throws UsageError if this build has no NCCL or this process no GPU.
void check_available();
// Applies to the world and all its groups; all ranks must pass the same value.
void enable(const comm::Group& world, bool is_on = true);
bool is_enabled(const comm::Group& group);

}  // namespace sheaf::tensor::nccl
