#include <gtest/gtest.h>

#include "sheaf/spatial/ops/windows.hpp"
#include "tests/spatial/on_grids.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;
using Sizes = std::vector<std::int64_t>;

Case adaptive(const char* name, const Sizes& input, const Sizes& output) {
  return {concat(name, " of ", at::IntArrayRef(input), " to ",
                 at::IntArrayRef(output)),
          input,
          {},
          [=](const at::Tensor& x, const Tensors&) {
            const bool is_max = std::string(name) != "average";
            // Few distinct values, so that windows contain equal ones.
            const at::Tensor y =
                std::string(name) == "max of ties" ? x.round().relu() : x;
            if (output.size() == 1)
              return is_max ? std::get<0>(at::adaptive_max_pool1d(y, output))
                            : at::adaptive_avg_pool1d(y, output);
            if (output.size() == 2)
              return is_max ? std::get<0>(at::adaptive_max_pool2d(y, output))
                            : at::adaptive_avg_pool2d(y, output);
            return is_max ? std::get<0>(at::adaptive_max_pool3d(y, output))
                          : at::adaptive_avg_pool3d(y, output);
          }};
}

// Numbers of windows that do not divide the image, that are one or equal to the
// number of pixels, or larger.
TEST(SplitAdaptivePooling, GivesWhatOneProcessGives) {
  for (const char* name : {"average", "max", "max of ties"}) {
    std::vector<Case> cases;
    for (const Sizes& output :
         {Sizes{3, 4}, {5, 7}, {7, 1}, {1, 5}, {10, 13}, {14, 20}, {1, 1}})
      cases.push_back(adaptive(name, {2, 3, 11, 13}, output));
    cases.push_back(adaptive(name, {1, 2, 8, 12}, {4, 6}));
    expect_on_grids(cases, kFlatGrids);
    expect_on_grids(cases, {"2x2"}, at::kFloat, 1e-5);
  }
}

TEST(SplitAdaptivePooling, LinesVolumesAndAxesThatAreNotCut) {
  for (const char* name : {"average", "max"}) {
    expect_on_grids(
        {adaptive(name, {2, 3, 17}, {5}), adaptive(name, {1, 1, 6}, {7})},
        {"1", "2", "3", "4"});
    expect_on_grids({adaptive(name, {1, 2, 7, 6, 5}, {3, 4, 2})},
                    {"2", "2x2", "2x2x2", "1x2x3"});
    expect_on_grids({adaptive(name, {2, 3, 11, 13}, {4, 5})}, {"2", "3"});
  }
}

TEST(SplitAdaptivePooling, NamesThePlacesOfMaxima) {
  const at::Tensor image = random({2, 3, 9, 11}, at::kDouble, 1).round();
  const auto wanted = at::adaptive_max_pool2d(image, {4, 5});
  for (const std::string& grid : kFlatGrids)
    comm::run_threads(ranks_of(grid), [&](const comm::Group& group) {
      const auto tiles =
          std::make_shared<Tiles>(group, halo::Grid::parse(grid));
      const auto found = at::adaptive_max_pool2d(cut(image, tiles), {4, 5});
      EXPECT_TRUE(at::equal(gather(std::get<0>(found)), std::get<0>(wanted)))
          << grid;
      EXPECT_TRUE(at::equal(gather(std::get<1>(found)), std::get<1>(wanted)))
          << grid;
    });
}

TEST(AdaptiveAxis, WindowsCoverTheAxis) {
  for (std::int64_t inputs = 1; inputs < 20; ++inputs)
    for (std::int64_t outputs = 1; outputs < 25; ++outputs) {
      const AdaptiveAxis axis{inputs, outputs};
      EXPECT_EQ(axis.window(0).begin, 0);
      EXPECT_EQ(axis.window(outputs - 1).end, inputs);
      for (std::int64_t o = 0; o < outputs; ++o) {
        EXPECT_GT(axis.window(o).size(), 0);
        if (o > 0) EXPECT_GE(axis.window(o - 1).end, axis.window(o).begin);
      }
    }
}

}  // namespace
}  // namespace sheaf::spatial
