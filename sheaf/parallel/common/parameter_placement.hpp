#pragma once
// Where the ranks of a group store a parameter: in host memory, which messages
// can use directly, or on a device, with a staging block in host memory.

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::parallel {

struct Placement {
  int number = 0;  // equal for parameters with the same placement on every rank
  bool is_host = true;     // on all ranks
  bool is_device = false;  // on all ranks

  bool operator==(const Placement&) const = default;
};

// The placement on one rank: 0 for the host, 1 + index for a device.
using PlacementCode = std::int8_t;
PlacementCode placement_code(const at::Device& device);

// Computes the placements from the codes of all ranks, in rank order.
std::vector<Placement> placements_of(const std::vector<PlacementCode>& codes,
                                     int ranks);
// `mine` has this rank's code of each parameter. All ranks must call it; all
// get the same result.
std::vector<Placement> agree_on_placements(
    const comm::Group& group, const std::vector<PlacementCode>& mine);

// Throws UsageError, naming `what`, unless each parameter is on the host on all
// ranks or on a device on all ranks. All ranks must call it.
void check_same_placement(const comm::Group& group,
                          const std::vector<at::Tensor>& parameters,
                          const char* what);

}  // namespace sheaf::parallel
