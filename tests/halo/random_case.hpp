#pragma once
// Random tilings and needs, the same on all ranks with the same seed.

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "sheaf/halo/halo_plan.hpp"

namespace sheaf::halo {

inline std::int64_t pick(std::mt19937& random, std::int64_t low,
                         std::int64_t high) {
  return low + static_cast<std::int64_t>(
                   random() % static_cast<std::uint64_t>(high - low + 1));
}

// Cuts at random positions: many parts are empty.
inline Cuts random_cuts(std::mt19937& random, std::int64_t size, int parts) {
  std::vector<std::int64_t> positions{0, size};
  for (int i = 1; i < parts; ++i) positions.push_back(pick(random, 0, size));
  std::sort(positions.begin(), positions.end());
  return Cuts(std::move(positions));
}

inline Tiling random_tiling(std::mt19937& random, const Grid& grid,
                            std::int64_t least, std::int64_t most) {
  std::vector<Cuts> cuts;
  for (int axis = 0; axis < grid.axes(); ++axis) {
    const std::int64_t size = pick(random, least, most);
    cuts.push_back(pick(random, 0, 1)
                       ? random_cuts(random, size, grid.size(axis))
                       : Cuts::balanced(size, grid.size(axis)));
  }
  return Tiling(grid, std::move(cuts));
}

// A box for each rank: around its tile, inside of it, or anywhere.
inline std::vector<Box> random_needs(std::mt19937& random,
                                     const Tiling& tiling) {
  std::vector<Box> needs;
  for (int rank = 0; rank < tiling.ranks(); ++rank) {
    Box box = tiling.box_of(rank);
    const bool is_anywhere = pick(random, 0, 7) == 0;
    for (int axis = 0; axis < tiling.axes(); ++axis) {
      const std::int64_t size = tiling.cuts(axis).size();
      if (is_anywhere) box[axis] = {pick(random, 0, size), size};
      const std::int64_t begin = box[axis].begin - pick(random, -2, 4);
      const std::int64_t end = box[axis].end + pick(random, -2, 4);
      box[axis] = intersect(Interval{begin, end}, Interval{0, size});
    }
    needs.push_back(box);
  }
  return needs;
}

}  // namespace sheaf::halo
