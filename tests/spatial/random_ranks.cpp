// Some of the windows of random_test.cpp, with processes.

#include <gtest/gtest.h>

#include "tests/spatial/random_cases.hpp"
#include "tests/spatial/random_chains.hpp"
#include "tests/support/world.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;

std::vector<std::string> grids_of(int ranks) {
  if (ranks == 1) return {"1", "1x1"};
  if (ranks == 4) return {"4", "2x2", "1x4", "4x1"};
  const std::string all = std::to_string(ranks);
  return {all, "1x" + all, all + "x1"};
}

void expect_cases_same(const std::vector<Case>& cases, const std::string& grid,
                       at::ScalarType type, double tolerance,
                       parallel::Overlap overlap) {
  const auto tiles = std::make_shared<Tiles>(sheaf::test::world(),
                                             halo::Grid::parse(grid), overlap);
  for (const Case& one : cases)
    expect_same(one, alone(one, type), tiles, type, tolerance);
}

class RandomWindowRanks : public testing::TestWithParam<parallel::Overlap> {};

TEST_P(RandomWindowRanks, GiveWhatOneProcessGives) {
  for (const std::string& grid : grids_of(sheaf::test::world().size())) {
    const auto cases = random_cases(halo::Grid::parse(grid), 60);
    expect_cases_same(cases, grid, at::kDouble, 1e-12, GetParam());
    expect_cases_same(cases, grid, at::kFloat, 1e-5, GetParam());
  }
}

TEST_P(RandomWindowRanks, TakeStridesThatTilesAreNoMultiplesOf) {
  for (const std::string& grid : grids_of(sheaf::test::world().size())) {
    if (halo::Grid::parse(grid).axes() != 2) continue;
    const std::vector<Case> cases{strided_case(5, 2, 28),
                                  strided_case(3, 2, 55)};
    expect_cases_same(cases, grid, at::kDouble, 1e-12, GetParam());
    expect_cases_same(cases, grid, at::kFloat, 1e-5, GetParam());
  }
}

TEST(RandomChainRanks, GiveWhatOneProcessGives) {
  for (const std::string& grid : grids_of(sheaf::test::world().size()))
    if (halo::Grid::parse(grid).axes() == 2)
      expect_cases_same(random_chains(99, 30), grid, at::kDouble, 1e-10,
                        parallel::Overlap::kAuto);
}

INSTANTIATE_TEST_SUITE_P(All, RandomWindowRanks,
                         testing::Values(parallel::Overlap::kOff,
                                         parallel::Overlap::kOn));

}  // namespace
}  // namespace sheaf::spatial
