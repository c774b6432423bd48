#pragma once
// Who sends what to whom, so that each rank gets the box that it needs out of
// what all ranks own. Every rank knows all needs and computes its own part of
// the plan; nobody has to be asked.

#include <span>
#include <vector>

#include "sheaf/halo/tiling.hpp"

namespace sheaf::halo {

struct HaloMessage {
  int peer = 0;
  Box box{};  // of the image; relative_to(box, tile or wanted) says where

  bool operator==(const HaloMessage&) const = default;
};

struct HaloPlan {
  int rank = 0;
  Box tile{};    // what this rank owns
  Box wanted{};  // what it needs
  Box local{};   // what it has of that itself
  // By peers, ascending, none of them this rank, none of no volume.
  std::vector<HaloMessage> sends{};
  std::vector<HaloMessage> receives{};

  // Of one channel; the bytes of an exchange are these, times the channels and
  // samples, times the size of an element.
  std::int64_t sent_volume() const;
  std::int64_t received_volume() const;

  bool operator==(const HaloPlan&) const = default;
};

// The plan of `rank`. `needs` holds the box that each rank needs, within the
// image or empty; UsageError otherwise. A box is made of parts of all tiles
// that it meets: it may be smaller than the rank's own tile, lie elsewhere, or
// reach beyond the nearest neighbours.
HaloPlan make_plan(const Layout& owners, std::span<const Box> needs, int rank);

}  // namespace sheaf::halo
