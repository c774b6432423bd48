#pragma once
// The choice of NCCL for a world; what it does is in nccl.hpp.

#include "sheaf/comm/group/group.hpp"

namespace sheaf::tensor::nccl {

// UsageError when this build has no NCCL, or this process no GPU.
void check_available();
// For the world and all groups made from it; all ranks switch alike.
void enable(const comm::Group& world, bool is_on = true);
bool is_enabled(const comm::Group& group);

}  // namespace sheaf::tensor::nccl
