#include "sheaf/halo/grid.hpp"

#include <charconv>

#include "sheaf/base/error.hpp"

namespace sheaf::halo {
namespace {

constexpr int kMaxRanks = 1 << 20;

// Parses the size at the start of the text and removes it with a following 'x'.
int take_size(std::string_view& text, std::string_view whole) {
  int size = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), size);
  const bool is_good = error == std::errc() && size >= 1 && size <= kMaxRanks;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  const bool goes_on = text.size() > 1 && text.front() == 'x';
  SHEAF_CHECK(is_good && (text.empty() || goes_on), "'", whole,
              "' is not a grid; use one to three sizes of at least 1 joined by "
              "'x', such as 4, 2x2 or 2x1x3");
  if (goes_on) text.remove_prefix(1);
  return size;
}

}  // namespace

Grid Grid::parse(std::string_view text) {
  Grid grid;
  grid.axes_ = 0;
  std::string_view rest = text;
  do {
    SHEAF_CHECK(grid.axes_ < kMaxAxes, "the grid '", text, "' has more than ",
                kMaxAxes,
                " axes; valid grids are, for example, 4, 2x2 and 2x1x3");
    grid.sizes_[static_cast<std::size_t>(grid.axes_++)] = take_size(rest, text);
  } while (!rest.empty());
  const std::int64_t planes = std::int64_t{grid.sizes_[0]} * grid.sizes_[1];
  SHEAF_CHECK(planes <= kMaxRanks && planes * grid.sizes_[2] <= kMaxRanks,
              "the grid '", text, "' has more than ", kMaxRanks,
              " ranks; use a smaller grid");
  return grid;
}

Coordinates Grid::coordinates(int rank) const {
  SHEAF_CHECK(rank >= 0 && rank < ranks(), "rank ", rank,
              " is not in the grid ", text(), ", which has ranks 0 to ",
              ranks() - 1);
  return {rank / (sizes_[1] * sizes_[2]), rank / sizes_[2] % sizes_[1],
          rank % sizes_[2]};
}

int Grid::rank(const Coordinates& at) const {
  for (std::size_t axis = 0; axis < kMaxAxes; ++axis)
    SHEAF_CHECK(at[axis] >= 0 && at[axis] < sizes_[axis], "position ", at[axis],
                " on axis ", axis, " is not in the grid ", text());
  return (at[0] * sizes_[1] + at[1]) * sizes_[2] + at[2];
}

std::string Grid::text() const {
  std::string text = std::to_string(sizes_[0]);
  for (int axis = 1; axis < axes_; ++axis) text += concat("x", size(axis));
  return text;
}

void check_fits(const Grid& grid, int ranks) {
  SHEAF_CHECK(grid.ranks() == ranks, "the grid ", grid, " needs ", grid.ranks(),
              " ranks, the group has ", ranks,
              "; use another grid or another number of ranks");
}

}  // namespace sheaf::halo
