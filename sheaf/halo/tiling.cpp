#include "sheaf/halo/tiling.hpp"

#include "sheaf/base/error.hpp"

namespace sheaf::halo {

bool Box::contains(const Box& other) const {
  if (other.is_empty()) return true;
  for (int axis = 0; axis < kMaxAxes; ++axis)
    if (!(*this)[axis].contains(other[axis])) return false;
  return true;
}

Box intersect(const Box& a, const Box& b) {
  Box both;
  for (int axis = 0; axis < kMaxAxes; ++axis)
    both[axis] = intersect(a[axis], b[axis]);
  return both;
}

// The boxes below and above the part, axis by axis.
std::vector<Box> boxes_around(const Box& whole, const Box& part) {
  if (whole.is_empty()) return {};
  if (part.is_empty()) return {whole};
  std::vector<Box> list;
  Box rest = whole;
  for (int axis = 0; axis < kMaxAxes; ++axis) {
    for (const Interval side : {Interval{rest[axis].begin, part[axis].begin},
                                Interval{part[axis].end, rest[axis].end}}) {
      if (side.is_empty()) continue;
      list.push_back(rest);
      list.back()[axis] = side;
    }
    rest[axis] = part[axis];
  }
  return list;
}

Box relative_to(const Box& box, const Box& origin) {
  Box seen;
  for (int axis = 0; axis < kMaxAxes; ++axis)
    seen[axis] = shift(box[axis], -origin[axis].begin);
  return seen;
}

std::ostream& operator<<(std::ostream& out, const Box& box) {
  return out << box[0] << 'x' << box[1] << 'x' << box[2];
}

Tiling::Tiling(const Grid& grid, std::vector<Cuts> cuts)
    : grid_(grid), cuts_(std::move(cuts)) {
  SHEAF_CHECK(static_cast<int>(cuts_.size()) == grid.axes(), "the grid ", grid,
              " has ", grid.axes(), " axes, cuts are given for ", cuts_.size());
  for (int axis = 0; axis < axes(); ++axis)
    SHEAF_CHECK(this->cuts(axis).parts() == grid.size(axis), "axis ", axis,
                " of the grid ", grid, " has ", grid.size(axis),
                " ranks, but the cuts ", this->cuts(axis).text(), " make ",
                this->cuts(axis).parts(), " parts");
}

Tiling Tiling::balanced(const Grid& grid,
                        const std::vector<std::int64_t>& shape) {
  SHEAF_CHECK(static_cast<int>(shape.size()) == grid.axes(), "the grid ", grid,
              " cuts ", grid.axes(), " axes, the image has ", shape.size(),
              "; give the grid a size for each axis, 1 for uncut axes");
  std::vector<Cuts> cuts;
  for (int axis = 0; axis < grid.axes(); ++axis)
    cuts.push_back(
        Cuts::balanced(shape[static_cast<std::size_t>(axis)], grid.size(axis)));
  return Tiling(grid, std::move(cuts));
}

std::vector<std::int64_t> Tiling::shape() const {
  std::vector<std::int64_t> shape;
  for (const Cuts& cuts : cuts_) shape.push_back(cuts.size());
  return shape;
}

Box Tiling::whole() const {
  Box box;
  for (int axis = 0; axis < axes(); ++axis) box[axis] = {0, cuts(axis).size()};
  return box;
}

Box Tiling::box_of(int rank) const {
  const Coordinates at = grid_.coordinates(rank);
  Box box;
  for (int axis = 0; axis < axes(); ++axis)
    box[axis] = cuts(axis)[at[static_cast<std::size_t>(axis)]];
  return box;
}

}  // namespace sheaf::halo
