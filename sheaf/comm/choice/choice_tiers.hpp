#pragma once
// A choice in words and tier by tier: what reports print, and the name under
// which the tuner remembers it.

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
  int size = 1;           // how many take part
  std::string algorithm;  // "shared", "ring" ...
  // What no algorithm can beat in this tier, per byte of the buffer.
  double bound_us_per_byte = 0;
};

// The tiers in which there is something to do, from the inside out.
std::vector<ChosenTier> tiers_of(const Choice& choice, const Layout& layout,
                                 const topo::Machine& machine);

// What no all-reduce of the group can beat, per byte of the buffer.
double bound_us_per_byte(const Layout& layout, const topo::Machine& machine);

}  // namespace sheaf::comm
