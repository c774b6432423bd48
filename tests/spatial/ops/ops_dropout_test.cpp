#include <gtest/gtest.h>

#include "tests/spatial/on_grids.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;

TEST(SplitDropout, DoesNotDependOnTheGrid) {
  const at::Tensor ones = at::ones({2, 3, 6, 5}, at::kDouble);
  std::vector<at::Tensor> masks;
  for (const std::string grid : {"1x1", "2x2", "1x3"}) {
    at::Tensor found;
    comm::run_threads(ranks_of(grid), [&](const comm::Group& group) {
      if (group.rank() == 0) torch::manual_seed(5);
      const auto tiles =
          std::make_shared<Tiles>(group, halo::Grid::parse(grid));
      const at::Tensor dropped =
          gather(at::dropout(cut(ones, tiles), 0.4, true));
      const at::Tensor channels =
          gather(at::feature_dropout(cut(ones, tiles), 0.5, true));
      if (group.rank() == 0) found = dropped + 10 * channels;
    });
    masks.push_back(found);
  }
  EXPECT_TRUE(at::equal(masks[0], masks[1]));
  EXPECT_TRUE(at::equal(masks[0], masks[2]));
  EXPECT_GT((masks[0] == 0).sum().item<int>(), 20);
  EXPECT_GT((masks[0] > 10).sum().item<int>(), 20);
}

// With the same seed, the mask in place is that of a new tensor.
TEST(SplitDropout, InPlaceChangesTheTensorItself) {
  const at::Tensor ones = at::ones({2, 3, 6, 5}, at::kDouble);
  comm::run_threads(2, [&](const comm::Group& group) {
    const auto dropped = [&](bool is_in_place) {
      if (group.rank() == 0) torch::manual_seed(5);
      const auto tiles =
          std::make_shared<Tiles>(group, halo::Grid::parse("1x2"));
      at::Tensor x = cut(ones, tiles).clone();
      if (!is_in_place) return gather(at::dropout(x, 0.5, true));
      at::dropout_(x, 0.5, true);
      return gather(x);
    };
    const at::Tensor wanted = dropped(false), found = dropped(true);
    EXPECT_TRUE(at::equal(found, wanted));
    const auto zeros = (found == 0).sum().item<int>();
    EXPECT_GT(zeros, 20);
    EXPECT_EQ((found == 2).sum().item<int>(), found.numel() - zeros);
  });
}

}  // namespace
}  // namespace sheaf::spatial
