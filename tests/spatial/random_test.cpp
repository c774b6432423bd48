// Random windows on random grids against one process.

#include <gtest/gtest.h>

#include "tests/spatial/on_grids.hpp"
#include "tests/spatial/random_cases.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;

void expect_many_same(const std::string& grid, int count, at::ScalarType type,
                      double tolerance,
                      parallel::Overlap overlap = parallel::Overlap::kAuto) {
  expect_on_grids(random_cases(halo::Grid::parse(grid), count), {grid}, type,
                  tolerance, overlap);
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

// Halos first, then all of the tile; sums are sent back.
TEST(RandomWindows, GiveTheSameWhenHalosComeFirst) {
  for (const char* grid : {"1", "2", "3", "6"})
    expect_many_same(grid, 100, at::kDouble, 1e-12, parallel::Overlap::kOff);
  for (const char* grid : {"1x2", "2x1", "2x2", "3x2", "3x3"})
    expect_many_same(grid, 80, at::kDouble, 1e-12, parallel::Overlap::kOff);
}

}  // namespace
}  // namespace sheaf::spatial
