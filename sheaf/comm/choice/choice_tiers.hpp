#pragma once
// Describes a choice as text and tier by tier: for reports, and as the key
// under which the tuner stores it.

#include <string>
#include <vector>

#include "sheaf/comm/choice/select.hpp"
#include "sheaf/topo/machine.hpp"

namespace sheaf::comm {

// "small", "ordered", "mpi", "shared piece=256K" on one host,
// "lanes=2 tiers=ring:4,tree:2 piece=512K" on several, and
// "flat tiers=ring:8 piece=1M" without shared memory.
std::string text_of(const Choice& choice, const Layout& layout);

inline constexpr int kHostTier = -1;

struct ChosenTier {
  std::string name;       // "host", "tier 1" ...
  int outer = kHostTier;  // index in the plan's outer_dims
  int size = 1;           // number of participants
  std::string algorithm;  // "shared", "ring" ...
  // Lower bound for any algorithm in this tier, per byte of the buffer.
  double bound_us_per_byte = 0;
};

// The tiers with more than one participant, from the innermost outward.
std::vector<ChosenTier> tiers_of(const Choice& choice, const Layout& layout,
                                 const topo::Machine& machine);

// Lower bound for any all-reduce of the group, per byte of the buffer.
double bound_us_per_byte(const Layout& layout, const topo::Machine& machine);

}  // namespace sheaf::comm
