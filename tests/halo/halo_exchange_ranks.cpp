// Halo exchanges between ranks as processes.

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/halo/exchange_case.hpp"
#include "tests/support/world.hpp"

namespace sheaf::halo {
namespace {

std::vector<Grid> grids_of(int ranks) {
  std::vector<Grid> grids;
  for (const char* text : {"1", "1x1", "1x1x1", "2", "1x2", "2x1", "1x2x1", "3",
                           "3x1", "1x1x3", "4", "2x2", "4x1", "2x1x2"})
    if (const Grid grid = Grid::parse(text); grid.ranks() == ranks)
      grids.push_back(grid);
  return grids;
}

TEST(HaloRanks, BringTheWantedBoxAndSumGradients) {
  const comm::Group& world = test::world();
  std::mt19937 random(21);
  for (const Grid& grid : grids_of(world.size()))
    for (int i = 0; i < 50; ++i) {
      SCOPED_TRACE(concat(grid, " case ", i));
      const ExchangeCase test = random_case(random, grid);
      check_exchange<float>(world, test);
      check_exchange<double>(world, test);
      check_adjointness(world, test);
    }
}

// Messages of megabytes, repeated.
TEST(HaloRanks, ExchangeLargeHalosAgainAndAgain) {
  const comm::Group& world = test::world();
  ExchangeCase test;
  test.tiling = Tiling::balanced(Grid::parse(concat("1x", world.size())),
                                 {200, 64 * world.size()});
  for (int rank = 0; rank < world.size(); ++rank) {
    Box box = test.tiling.box_of(rank);
    box[1] =
        intersect({box[1].begin - 20, box[1].end + 20}, test.tiling.whole()[1]);
    test.needs.push_back(box);
  }
  test.outer = {2, 16};
  HaloExchange exchange(world, plan_of(test, world.rank()), DType::kF32);
  for (test.salt = 0; test.salt < 8; ++test.salt) {
    test.is_in_arena = test.salt % 2 == 1;
    check_forward<float>(world, exchange, test);
    check_adjoint<float>(world, exchange, test);
  }
}

TEST(HaloRanks, ComeAndGoInGroups) {
  const comm::Group& world = test::world();
  std::mt19937 random(22);
  for (int i = 0; i < 10; ++i) {
    const comm::Group part = world.split(world.rank() / 2, -world.rank());
    const Grid grid = Grid::parse(std::to_string(part.size()));
    for (int j = 0; j < 10; ++j)
      check_exchange<float>(part, random_case(random, grid));
  }
}

}  // namespace
}  // namespace sheaf::halo
