#include "sheaf/halo/halo_cache.hpp"

#include <gtest/gtest.h>

#include "sheaf/comm/group/world.hpp"
#include "tests/halo/exchange_case.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::halo {
namespace {

using comm::Group;
using comm::run_threads;

TEST(HaloCacheTest, MakesEachExchangeOnce) {
  run_threads(2, [](const Group& group) {
    HaloCache cache(group);
    const Tiling tiling = Tiling::balanced(Grid::parse("2"), {8});
    const std::vector<Box> all(2, tiling.whole());
    HaloExchange& first = cache.get(tiling, all, DType::kF32);
    EXPECT_EQ(&cache.get(tiling, all, DType::kF32), &first);
    EXPECT_NE(&cache.get(tiling, all, DType::kF64), &first);
    std::vector<Box> own{tiling.box_of(0), tiling.box_of(1)};
    EXPECT_NE(&cache.get(tiling, own, DType::kF32), &first);
    // The plan is the same for this rank, but not for the other.
    std::vector<Box> half = all;
    const auto other = static_cast<std::size_t>(1 - group.rank());
    half[other] = own[other];
    EXPECT_NE(&cache.get(tiling, half, DType::kF32), &first);
  });
}

TEST(HaloCacheTest, RefusesAnotherNumberOfRanks) {
  run_threads(1, [](const Group& group) {
    HaloCache cache(group);
    const Tiling tiling = Tiling::balanced(Grid::parse("2x2"), {8, 8});
    const std::vector<Box> all(4, tiling.whole());
    expect_throws<UsageError>([&] { cache.get(tiling, all, DType::kF32); },
                              {"2x2", "4 ranks", "has 1"});
  });
}

// Messages so large that both ends must poll; the pump advances them.
TEST(HaloCacheTest, LetsMessagesBetweenHostsMoveOn) {
  run_threads({"a", "b", "b", "c"}, [](const Group& group) {
    HaloCache cache(group);
    std::mt19937 random(31);
    for (int i = 0; i < 5; ++i) {
      ExchangeCase test = random_case(random, Grid::parse("2x2"));
      test.outer = {8, 100};
      HaloExchange& exchange = cache.get(test.tiling, test.needs, DType::kF32);
      const auto tile = image_tile<float>(test, group);
      Tile<float> got(exchange.plan().wanted, test.outer, Order::kPlain);
      auto handle = exchange.start(tile.view());
      while (!exchange.poll(handle)) std::this_thread::yield();
      exchange.finish(std::move(handle), got.view());
      EXPECT_TRUE(got.holds(
          [&](const Place& place) { return exact_value(place, test.salt); }));
      check_adjoint<float>(group, exchange, test);
    }
    EXPECT_EQ(cache.counters().exchanges, 10);
  });
}

}  // namespace
}  // namespace sheaf::halo
