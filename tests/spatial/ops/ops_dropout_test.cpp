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

}  // namespace
}  // namespace sheaf::spatial
