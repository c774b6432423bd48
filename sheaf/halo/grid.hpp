#pragma once
// Ranks laid out over the axes of an image: "2x3" is two rows of three.

#include <array>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

namespace sheaf::halo {

inline constexpr int kMaxAxes = 3;
using Coordinates = std::array<int, kMaxAxes>;  // 0 on axes that are not there

class Grid {
 public:
  Grid() = default;  // "1"
  // One to three sizes of at least 1 joined by 'x', the first axis first.
  // UsageError says what is wrong with others.
  static Grid parse(std::string_view text);

  int axes() const { return axes_; }
  int size(int axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  int ranks() const { return sizes_[0] * sizes_[1] * sizes_[2]; }

  // The last axis runs fastest.
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

// UsageError when the grid has not `ranks` ranks; it names both numbers.
void check_fits(const Grid& grid, int ranks);

}  // namespace sheaf::halo
