#pragma once
// Random windows: convolutions and max pooling of lines and images. The same
// seed gives the same cases in every process.

#include <random>

#include "sheaf/base/error.hpp"
#include "tests/spatial/same_as_alone.hpp"

namespace sheaf::spatial::test {

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

struct RandomAxis {
  std::int64_t size, kernel, stride, padding, dilation;
};

inline RandomAxis random_axis(Dice& dice, bool is_pool) {
  for (;;) {
    RandomAxis axis{dice.one_of<std::int64_t>({4, 6, 9, 12, 27, 29, 31}),
                    dice.in(1, 7), dice.in(1, 3), dice.in(0, 3), dice.in(1, 3)};
    if (is_pool) axis.padding = std::min(axis.padding, axis.kernel / 2);
    if (axis.size + 2 * axis.padding >= axis.dilation * (axis.kernel - 1) + 1)
      return axis;
  }
}

inline Case random_case(Dice& dice, int axes, int number) {
  const bool is_pool = dice.in(0, 3) == 0;
  const std::int64_t groups = dice.in(1, 2);
  const std::int64_t in = 2 * groups, out = groups * dice.in(1, 2);
  using Sizes = std::vector<std::int64_t>;
  Sizes input{dice.in(1, 2), in}, weight{out, in / groups};
  Sizes kernel, stride, padding, dilation;
  for (int i = 0; i < axes; ++i) {
    RandomAxis axis = random_axis(dice, is_pool);
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

inline std::vector<Case> random_cases(const halo::Grid& grid, int count) {
  Dice dice(static_cast<unsigned>(grid.ranks() * 100 + grid.axes()));
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i)
    cases.push_back(random_case(dice, grid.axes(), i));
  return cases;
}

// A square kernel on a square image, including a case that neon got wrong
// (kernel 5, stride 2, 28 pixels on 2 ranks) and one with negative halos (3, 2,
// 55 on 5).
inline Case strided_case(std::int64_t kernel, std::int64_t stride,
                         std::int64_t size) {
  return {concat("kernel ", kernel, " stride ", stride, " of ", size),
          {1, 2, size, size},
          {{3, 2, kernel, kernel}, {3}},
          [=](const at::Tensor& x, const Tensors& w) {
            return at::conv2d(x, w[0], w[1], stride);
          }};
}

}  // namespace sheaf::spatial::test
