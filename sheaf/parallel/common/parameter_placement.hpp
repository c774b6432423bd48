#pragma once
// Where the ranks of a group store a parameter: in host memory, which messages
// can use directly, or on a device, with a staging block in host memory.

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::parallel {

struct Home {
  int number = 0;  // equal for parameters with the same placement on every rank
  bool is_host = true;     // on all ranks
  bool is_device = false;  // on all ranks

  bool operator==(const Home&) const = default;
};

// The placement on one rank: 0 for the host, 1 + index for a device.
using HomeCode = std::int8_t;
HomeCode home_code(const at::Device& device);

// Computes the placements from the codes of all ranks, in rank order.
std::vector<Home> homes_of(const std::vector<HomeCode>& codes, int ranks);
// `mine` has this rank's code of each parameter. All ranks must call it; all
// get the same result.
std::vector<Home> agree_on_homes(const comm::Group& group,
                                 const std::vector<HomeCode>& mine);

// Throws UsageError, naming `what`, unless each parameter is on the host on all
// ranks or on a device on all ranks. All ranks must call it.
void check_like_homes(const comm::Group& group,
                      const std::vector<at::Tensor>& parameters,
                      const char* what);

}  // namespace sheaf::parallel
