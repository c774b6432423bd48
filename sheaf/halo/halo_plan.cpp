#include "sheaf/halo/halo_plan.hpp"

#include <numeric>

#include "sheaf/base/error.hpp"

namespace sheaf::halo {
namespace {

std::int64_t volume_of(const std::vector<HaloMessage>& messages) {
  return std::accumulate(messages.begin(), messages.end(), std::int64_t{0},
                         [](std::int64_t sum, const HaloMessage& message) {
                           return sum + message.box.volume();
                         });
}

void check_needs(const Tiling& owners, std::span<const Box> needs, int rank) {
  SHEAF_CHECK(static_cast<int>(needs.size()) == owners.ranks(), "the tiling ",
              owners.grid(), " has ", owners.ranks(),
              " ranks, but required boxes are given ", "for ", needs.size(),
              "; give one box for each rank");
  SHEAF_CHECK(rank >= 0 && rank < owners.ranks(), "rank ", rank,
              " is not in the grid ", owners.grid());
  const Box whole = owners.whole();
  for (std::size_t i = 0; i < needs.size(); ++i)
    SHEAF_CHECK(whole.contains(needs[i]), "rank ", i, " needs ", needs[i],
                ", which is not inside the image ", whole,
                "; remove the padding with clamp()");
}

// Visits only the owners whose tiles overlap the box.
std::vector<HaloMessage> receives_of(const Tiling& owners, const Box& wanted,
                                     int rank) {
  std::vector<HaloMessage> receives;
  if (wanted.is_empty()) return receives;
  std::array<std::pair<int, int>, kMaxAxes> range{
      std::pair{0, 1}, std::pair{0, 1}, std::pair{0, 1}};
  for (int axis = 0; axis < owners.axes(); ++axis)
    range[static_cast<std::size_t>(axis)] =
        owners.cuts(axis).owners(wanted[axis]);
  for (int i = range[0].first; i < range[0].second; ++i)
    for (int j = range[1].first; j < range[1].second; ++j)
      for (int k = range[2].first; k < range[2].second; ++k) {
        const int peer = owners.grid().rank({i, j, k});
        const Box box = intersect(owners.box_of(peer), wanted);
        if (peer != rank && !box.is_empty()) receives.push_back({peer, box});
      }
  return receives;
}

}  // namespace

std::int64_t HaloPlan::sent_volume() const { return volume_of(sends); }
std::int64_t HaloPlan::received_volume() const { return volume_of(receives); }

HaloPlan make_plan(const Tiling& owners, std::span<const Box> needs, int rank) {
  check_needs(owners, needs, rank);
  HaloPlan plan;
  plan.rank = rank;
  plan.tile = owners.box_of(rank);
  plan.wanted = needs[static_cast<std::size_t>(rank)];
  plan.local = intersect(plan.tile, plan.wanted);
  plan.receives = receives_of(owners, plan.wanted, rank);
  for (int peer = 0; peer < owners.ranks(); ++peer) {
    const Box box = intersect(plan.tile, needs[static_cast<std::size_t>(peer)]);
    if (peer != rank && !box.is_empty()) plan.sends.push_back({peer, box});
  }
  return plan;
}

}  // namespace sheaf::halo
