// Random windows on random grids against one process.

#include <gtest/gtest.h>

#include <random>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/world.hpp"
#include "sheaf/halo/window.hpp"
#include "tests/spatial/same_as_alone.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;
using Sizes = std::vector<std::int64_t>;

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  std::int64_t in(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return *(list.begin() + in(0, static_cast<std::int64_t>(list.size()) - 1));
  }

 private:
  std::mt19937 random_;
};

struct Axis {
  std::int64_t size, kernel, stride, padding, dilation;
};

Axis random_axis(Dice& dice, bool is_pool) {
  for (;;) {
    Axis axis{dice.one_of<std::int64_t>({4, 6, 9, 12, 27, 29, 31}),
              dice.in(1, 7), dice.in(1, 3), dice.in(0, 3), dice.in(1, 3)};
    if (is_pool) axis.padding = std::min(axis.padding, axis.kernel / 2);
    if (axis.size + 2 * axis.padding >= axis.dilation * (axis.kernel - 1) + 1)
      return axis;
  }
}

Case random_case(Dice& dice, int axes, int number) {
  const bool is_pool = dice.in(0, 3) == 0;
  const std::int64_t groups = dice.in(1, 2);
  const std::int64_t in = 2 * groups, out = groups * dice.in(1, 2);
  Sizes input{dice.in(1, 2), in}, weight{out, in / groups};
  Sizes kernel, stride, padding, dilation;
  for (int i = 0; i < axes; ++i) {
    Axis axis = random_axis(dice, is_pool);
    if (axes > 1) axis.size = std::min<std::int64_t>(axis.size, 13);
    if (axis.size + 2 * axis.padding < axis.dilation * (axis.kernel - 1) + 1)
      axis = {axis.size, 2, axis.stride,
              std::min<std::int64_t>(1, axis.padding), 1};
    input.push_back(axis.size);
    weight.push_back(axis.kernel);
    kernel.push_back(axis.kernel);
    stride.push_back(axis.stride);
    padding.push_back(axis.padding);
    dilation.push_back(axis.dilation);
  }
  const bool ceils = dice.in(0, 1) == 1;
  std::string name = concat(
      number, is_pool ? ": pool" : ": conv", " of ", at::IntArrayRef(input),
      " kernel ", at::IntArrayRef(kernel), " stride ", at::IntArrayRef(stride),
      " padding ", at::IntArrayRef(padding), " dilation ",
      at::IntArrayRef(dilation), " groups ", groups);
  if (is_pool)
    return {name, input, {}, [=](const at::Tensor& x, const Tensors&) {
              return axes == 1 ? at::max_pool1d(x, kernel, stride, padding,
                                                dilation, ceils)
                               : at::max_pool2d(x, kernel, stride, padding,
                                                dilation, ceils);
            }};
  return {
      name, input, {weight, {out}}, [=](const at::Tensor& x, const Tensors& w) {
        return at::convolution(x, w[0], w[1], stride, padding, dilation, false,
                               Sizes(kernel.size(), 0), groups);
      }};
}

void expect_many_same(const std::string& grid, int cases, at::ScalarType type,
                      double tolerance,
                      parallel::Overlap overlap = parallel::Overlap::kOff) {
  const halo::Grid shape = halo::Grid::parse(grid);
  Dice dice(static_cast<unsigned>(shape.ranks() * 100 + shape.axes()));
  std::vector<Case> list;
  std::vector<Results> wanted;
  for (int i = 0; i < cases; ++i) {
    list.push_back(random_case(dice, shape.axes(), i));
    wanted.push_back(alone(list.back(), type));
  }
  comm::run_threads(shape.ranks(), [&](const comm::Group& group) {
    const auto tiles = std::make_shared<Tiles>(group, shape, overlap);
    for (std::size_t i = 0; i < list.size(); ++i)
      expect_same(list[i], wanted[i], tiles, type, tolerance);
  });
}

TEST(RandomWindows, GiveWhatOneProcessGives) {
  for (const char* grid : {"1", "2", "3", "4", "6", "9", "16"})
    expect_many_same(grid, 120, at::kDouble, 1e-12);
  for (const char* grid :
       {"1x1", "1x2", "2x1", "1x3", "3x1", "2x2", "1x4", "4x1", "2x3", "3x2",
        "1x6", "6x1", "3x3", "1x9", "9x1"})
    expect_many_same(grid, 80, at::kDouble, 1e-12);
  for (const char* grid : {"3", "2x2"})
    expect_many_same(grid, 60, at::kFloat, 1e-5);
}

// Interiors, then borders; gradients are fetched.
TEST(RandomWindows, GiveTheSameWhileHalosTravel) {
  for (const char* grid : {"1", "2", "3", "6"})
    expect_many_same(grid, 100, at::kDouble, 1e-12, parallel::Overlap::kOn);
  for (const char* grid : {"1x2", "2x1", "2x2", "3x2", "3x3"})
    expect_many_same(grid, 80, at::kDouble, 1e-12, parallel::Overlap::kOn);
}

}  // namespace
}  // namespace sheaf::spatial
