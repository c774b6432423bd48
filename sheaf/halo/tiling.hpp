#pragma once
// The partition of an image among ranks: a grid of ranks and cuts per axis.

#include <array>
#include <ostream>
#include <vector>

#include "sheaf/halo/cuts.hpp"
#include "sheaf/halo/grid.hpp"

namespace sheaf::halo {

// A product of intervals. Unused axes have one position, 0.
struct Box {
  std::array<Interval, kMaxAxes> axes{Interval{0, 1}, Interval{0, 1},
                                      Interval{0, 1}};

  Interval& operator[](int axis) {
    return axes[static_cast<std::size_t>(axis)];
  }
  const Interval& operator[](int axis) const {
    return axes[static_cast<std::size_t>(axis)];
  }
  std::int64_t volume() const {
    return axes[0].size() * axes[1].size() * axes[2].size();
  }
  bool is_empty() const { return volume() == 0; }
  bool contains(const Box& other) const;
  bool operator==(const Box&) const = default;
};

Box intersect(const Box& a, const Box& b);
// Disjoint boxes that cover `whole` without `part`, which must be inside of it.
// For an empty part: `whole`.
std::vector<Box> boxes_around(const Box& whole, const Box& part);
// The box in coordinates relative to the low corner of `origin`.
Box relative_to(const Box& box, const Box& origin);
std::ostream& operator<<(std::ostream& out, const Box& box);

class Tiling {
 public:
  Tiling() = default;  // one rank that owns nothing
  // Cuts for each axis of the grid, with as many parts as the grid has ranks
  // along that axis; throws UsageError otherwise.
  Tiling(const Grid& grid, std::vector<Cuts> cuts);
  // Each axis is cut into parts of equal size, up to one position.
  static Tiling balanced(const Grid& grid,
                         const std::vector<std::int64_t>& shape);

  const Grid& grid() const { return grid_; }
  const Cuts& cuts(int axis) const {
    return cuts_[static_cast<std::size_t>(axis)];
  }
  int axes() const { return grid_.axes(); }
  int ranks() const { return grid_.ranks(); }
  std::vector<std::int64_t> shape() const;
  Box whole() const;
  Box box_of(int rank) const;

  bool operator==(const Tiling&) const = default;

 private:
  Grid grid_;
  std::vector<Cuts> cuts_{Cuts()};
};

}  // namespace sheaf::halo
