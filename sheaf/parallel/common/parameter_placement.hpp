#pragma once
// Where the ranks of a group have a parameter: on the host, in the memory that
// messages take, or on a device, whose memory a block on the host stands for.

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::parallel {

struct Home {
  int number = 0;  // the same for parameters that live together on all ranks
  bool is_host = true;     // everywhere
  bool is_device = false;  // everywhere

  bool operator==(const Home&) const = default;
};

// On one rank: 0 for the host, above for a device.
using HomeCode = std::int8_t;
HomeCode home_code(const at::Device& device);

// Out of all ranks' codes, those of rank 0 first.
std::vector<Home> homes_of(const std::vector<HomeCode>& codes, int ranks);
// This rank's codes, one for each parameter. All ranks call it, and get the
// same.
std::vector<Home> agree_on_homes(const comm::Group& group,
                                 const std::vector<HomeCode>& mine);

// UsageError, for `what`, unless all ranks have all parameters on the host, or
// all on devices. All ranks call it.
void check_like_homes(const comm::Group& group,
                      const std::vector<at::Tensor>& parameters,
                      const char* what);

}  // namespace sheaf::parallel
