#include <gtest/gtest.h>

#include "tests/spatial/on_grids.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;

// Of tensors with as many axes, the first determines how the result is cut.
TEST(SplitPointwise, ResultsAreCutAsTheFirstTensor) {
  const at::Tensor six = random({1, 2, 4, 6}, at::kDouble, 1);
  const at::Tensor eight = random({1, 2, 4, 8}, at::kDouble, 2);
  const at::Tensor wanted = six + eight.slice(3, 2, 8);
  comm::run_threads(2, [&](const comm::Group& group) {
    const auto tiles = std::make_shared<Tiles>(group, halo::Grid::parse("1x2"));
    const at::Tensor even = cut(six, tiles);
    const at::Tensor uneven = cut(eight, tiles).slice(3, 2, 8);
    ASSERT_EQ(split_of(even).text(), "1x2x[0|4]x[0|3|6]");
    ASSERT_EQ(split_of(uneven).text(), "1x2x[0|4]x[0|2|6]");
    EXPECT_TRUE(split_of(even + uneven) == split_of(even));
    EXPECT_TRUE(split_of(uneven + even) == split_of(uneven));
    EXPECT_TRUE(at::equal(gather(even + uneven), wanted));
    at::Tensor sum = even.clone();
    sum.add_(uneven);
    EXPECT_TRUE(split_of(sum) == split_of(even));
    EXPECT_TRUE(at::equal(gather(sum), wanted));
  });
}

// A tensor with more axes decides wherever it stands; the other one has none of
// the samples' axis.
TEST(SplitPointwise, ResultsAreCutAsTheWidestTensor) {
  const at::Tensor one = random({2, 4, 6}, at::kDouble, 1);
  const at::Tensor two = random({3, 2, 4, 6}, at::kDouble, 2);
  comm::run_threads(2, [&](const comm::Group& group) {
    const auto tiles = std::make_shared<Tiles>(group, halo::Grid::parse("2x1"));
    const at::Tensor narrow = cut(one, tiles, /*first_axis=*/1);
    const at::Tensor wide = cut(two, tiles);
    EXPECT_TRUE(split_of(narrow * wide) == split_of(wide));
    EXPECT_TRUE(at::equal(gather(narrow * wide), one * two));
  });
}

TEST(SplitPointwise, FactorsOfPreluAreWhole) {
  comm::run_threads(2, [](const comm::Group& group) {
    const auto tiles = std::make_shared<Tiles>(group, halo::Grid::parse("2"));
    const at::Tensor whole = random({1, 4, 6}, at::kDouble, 1);
    const at::Tensor factors = cut(at::ones({4}, at::kDouble), tiles, 0);
    for (const at::Tensor& input : {whole, cut(whole, tiles)})
      expect_throws<UsageError>(
          [&] { at::prelu(input, factors); },
          {"aten::prelu", "its weight is split, or its input is not"});
  });
}

}  // namespace
}  // namespace sheaf::spatial
