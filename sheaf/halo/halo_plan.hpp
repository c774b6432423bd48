#pragma once
// The messages that bring each rank the box it needs from the tiles of all
// ranks. Every rank knows all needs and computes its part of the plan without
// communication.

#include <span>
#include <vector>

#include "sheaf/halo/tiling.hpp"

namespace sheaf::halo {

struct HaloMessage {
  int peer = 0;
  Box box{};  // in image coordinates; relative_to() converts to a tile or box

  bool operator==(const HaloMessage&) const = default;
};

struct HaloPlan {
  int rank = 0;
  Box tile{};    // the box that this rank owns
  Box wanted{};  // the box that it needs
  Box local{};   // the intersection of both
  // Sorted by peer; without this rank and without empty messages.
  std::vector<HaloMessage> sends{};
  std::vector<HaloMessage> receives{};

  // Elements per plane. The bytes of an exchange are this number times samples,
  // channels and element size.
  std::int64_t sent_volume() const;
  std::int64_t received_volume() const;

  bool operator==(const HaloPlan&) const = default;
};

// The plan of `rank`. `needs` has one box per rank, which must be inside of the
// image or empty; throws UsageError otherwise. A box may be smaller than the
// rank's own tile, be elsewhere, or reach beyond the nearest neighbors.
HaloPlan make_plan(const Tiling& owners, std::span<const Box> needs, int rank);

}  // namespace sheaf::halo
