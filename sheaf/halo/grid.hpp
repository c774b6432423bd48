#pragma once
// A grid of ranks over the axes of an image: "2x3" is two rows of three ranks.

#include <array>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

namespace sheaf::halo {

inline constexpr int kMaxAxes = 3;
using Coordinates = std::array<int, kMaxAxes>;  // 0 on unused axes

class Grid {
 public:
  Grid() = default;  // "1"
  // One to three sizes of at least 1 joined by 'x', the first axis first.
  // Throws UsageError for any other text.
  static Grid parse(std::string_view text);

  int axes() const { return axes_; }
  int size(int axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  int ranks() const { return sizes_[0] * sizes_[1] * sizes_[2]; }

  // Ranks are numbered in row-major order: the last axis varies fastest. Throw
  // UsageError if the rank or the coordinates are outside of the grid.
  Coordinates coordinates(int rank) const;
  int rank(const Coordinates& coordinates) const;

  std::string text() const;
  bool operator==(const Grid&) const = default;

 private:
  int axes_ = 1;
  std::array<int, kMaxAxes> sizes_{1, 1, 1};
};

inline std::ostream& operator<<(std::ostream& out, const Grid& grid) {
  return out << grid.text();
}

// Throws UsageError, which names both numbers, unless the grid has `ranks`
// ranks.
void check_fits(const Grid& grid, int ranks);

}  // namespace sheaf::halo
