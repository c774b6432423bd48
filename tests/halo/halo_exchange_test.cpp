// Exchanges between ranks as threads, on one host and on several.

#include "sheaf/halo/halo_exchange.hpp"

#include <gtest/gtest.h>

#include <latch>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/halo/exchange_case.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/outcomes.hpp"

namespace sheaf::halo {
namespace {

using comm::Group;
using comm::run_threads;
using test::Ending;
using test::Hosts;

// The ranks of a grid on one host, or distributed over two.
Hosts hosts_of(const Grid& grid, bool has_two) {
  Hosts hosts;
  for (int rank = 0; rank < grid.ranks(); ++rank)
    hosts.push_back(has_two && rank % 3 == 1 ? "b" : "a");
  return hosts;
}

class HaloExchangeTest
    : public testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  Grid grid() const { return Grid::parse(std::get<0>(GetParam())); }
  Hosts hosts() const { return hosts_of(grid(), std::get<1>(GetParam())); }
};

TEST_P(HaloExchangeTest, BringsTheWantedBoxAndSumsGradients) {
  run_threads(hosts(), [&](const Group& group) {
    std::mt19937 random(7);
    for (int i = 0; i < 60; ++i) {
      SCOPED_TRACE(concat(grid(), " case ", i));
      const ExchangeCase test = random_case(random, grid());
      switch (i % 6) {
        case 0:
          check_exchange<double>(group, test);
          break;
        case 1:
          check_exchange<Half>(group, test);
          break;
        case 2:
          check_exchange<BFloat16>(group, test);
          break;
        default:
          check_exchange<float>(group, test);
          break;
      }
    }
  });
}

TEST_P(HaloExchangeTest, AdjointIsExact) {
  run_threads(hosts(), [&](const Group& group) {
    std::mt19937 random(8);
    for (int i = 0; i < 30; ++i)
      check_adjointness(group, random_case(random, grid()));
  });
}

// Ranks may run ahead of each other; the contents and the number of planes
// change each time.
TEST_P(HaloExchangeTest, IsUsedAgainAndAgain) {
  run_threads(hosts(), [&](const Group& group) {
    std::mt19937 random(9);
    ExchangeCase test = random_case(random, grid());
    HaloExchange exchange(group, plan_of(test, group.rank()), DType::kF32);
    for (test.salt = 0; test.salt < 100; ++test.salt) {
      test.outer = {1 + test.salt / 40, 1 + test.salt % 3};
      test.is_in_arena = test.salt / 5 % 2 == 0;
      check_forward<float>(group, exchange, test);
      if (test.salt % 3 == 0) check_adjoint<float>(group, exchange, test);
    }
  });
}

TEST_P(HaloExchangeTest, TwoMayBeUnderWay) {
  run_threads(hosts(), [&](const Group& group) {
    std::mt19937 random(10);
    ExchangeCase test = random_case(random, grid());
    HaloExchange exchange(group, plan_of(test, group.rank()), DType::kF64);
    auto other = test;
    for (int i = 0; i < 20; ++i) {
      other.salt = test.salt + 1;
      const auto a = image_tile<double>(test, group);
      const auto b = image_tile<double>(other, group);
      Tile<double> got(exchange.plan().wanted, test.outer, Order::kPadded);
      auto first = exchange.start(a.view());
      auto second = exchange.start(b.view());
      expect_throws<UsageError>([&] { exchange.start(a.view()); },
                                {"in progress"});
      exchange.finish(std::move(first), got.view());
      EXPECT_TRUE(got.holds(
          [&](const Place& place) { return exact_value(place, test.salt); }));
      exchange.finish(std::move(second), got.view());
      EXPECT_TRUE(got.holds(
          [&](const Place& place) { return exact_value(place, other.salt); }));
      test.salt += 2;
    }
  });
}

TEST_P(HaloExchangeTest, ManyOfThemAreUnderWayAtOnce) {
  run_threads(hosts(), [&](const Group& group) {
    std::mt19937 random(11);
    std::vector<ExchangeCase> tests;
    std::vector<std::unique_ptr<HaloExchange>> exchanges;
    std::vector<Tile<float>> tiles;
    std::vector<HaloExchange::Handle> handles;
    for (int i = 0; i < 10; ++i) {
      tests.push_back(random_case(random, grid()));
      exchanges.push_back(std::make_unique<HaloExchange>(
          group, plan_of(tests.back(), group.rank()), DType::kF32));
      tiles.push_back(image_tile<float>(tests.back(), group));
    }
    for (std::size_t i = 0; i < 10; ++i)
      handles.push_back(exchanges[i]->start(tiles[i].view()));
    for (std::size_t i = 10; i-- > 0;) {  // in reverse order
      Tile<float> got(exchanges[i]->plan().wanted, tests[i].outer,
                      Order::kPlain);
      exchanges[i]->finish(std::move(handles[i]), got.view());
      EXPECT_TRUE(got.holds([&](const Place& place) {
        return exact_value(place, tests[i].salt);
      }));
    }
  });
}

TEST_P(HaloExchangeTest, WritesOnlyHalosOrOnlyPatches) {
  run_threads(hosts(), [&](const Group& group) {
    std::mt19937 random(12);
    for (int i = 0; i < 20; ++i) {
      const ExchangeCase test = random_case(random, grid());
      HaloExchange exchange(group, plan_of(test, group.rank()), DType::kF32);
      const HaloPlan& plan = exchange.plan();
      const auto tile = image_tile<float>(test, group);
      const auto expected = [&](const Place& place) {
        return exact_value(place, test.salt);
      };
      Tile<float> got(plan.wanted, test.outer, test.wanted_order);
      got.fill([](const Place&) { return 55.0; });
      exchange.finish(exchange.start(tile.view()), got.view(), Part::kHalo);
      EXPECT_TRUE(got.holds([&](const Place& place) {
        return plan.local.contains(place.box()) ? 55.0 : expected(place);
      }));
      Box low = plan.wanted;
      low[0].end = low[0].begin + (low[0].size() + 1) / 2;
      Box high = plan.wanted;
      high[0].begin += high[0].size() / 3;
      Tile<float> first(low, test.outer, Order::kPlain);
      Tile<float> second(high, test.outer, Order::kPadded);
      const std::vector<Patch> patches{{low, first.view()},
                                       {high, second.view()}};
      exchange.finish(exchange.start(tile.view()), patches);
      EXPECT_TRUE(first.holds(expected));
      EXPECT_TRUE(second.holds(expected));
      // The adjoint adds to the existing content.
      got.fill([&](const Place& place) {
        return gradient(place, group.rank(), test.salt);
      });
      Tile<float> sum(plan.tile, test.outer, Order::kPlain);
      sum.fill([&](const Place& place) {
        return plan.local.contains(place.box())
                   ? gradient(place, group.rank(), test.salt)
                   : 0.0;
      });
      exchange.finish_adjoint(exchange.start_adjoint(got.view()), sum.view(),
                              Part::kHalo);
      EXPECT_TRUE(sum.holds(
          [&](const Place& place) { return gradient_sum(test, place); }));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Grids, HaloExchangeTest,
    testing::Combine(testing::Values("1", "2", "3", "4", "1x2", "2x2", "2x3",
                                     "3x3", "1x1x2", "2x2x1", "1x3x2", "2x2x2"),
                     testing::Bool()),
    [](const auto& info) {
      return "Grid" + std::get<0>(info.param) +
             (std::get<1>(info.param) ? "TwoHosts" : "OneHost");
    });

TEST(HaloExchange, WorksInGroupsOfSomeRanks) {
  run_threads({"a", "a", "b", "a", "b", "a"}, [](const Group& world) {
    const Group half = world.split(world.rank() % 2, -world.rank());
    std::mt19937 random(13);
    for (int i = 0; i < 20; ++i) {
      check_exchange<float>(half, random_case(random, Grid::parse("3")));
      check_exchange<float>(world, random_case(random, Grid::parse("2x3")));
    }
  });
}

// A rank that is ahead continues: it waits neither for its receivers nor for
// any other rank.
TEST(HaloExchange, WaitsForNobodyItNeedsNothingOf) {
  const Tiling tiling = Tiling::balanced(Grid::parse("3"), {9});
  std::vector<Box> needs{tiling.box_of(0), tiling.whole(), tiling.box_of(2)};
  std::latch done(1);
  run_threads(3, [&](const Group& group) {
    HaloExchange exchange(group, make_plan(tiling, needs, group.rank()),
                          DType::kF32);
    Tile<float> tile(exchange.plan().tile, {1, 1}, Order::kPlain);
    Tile<float> got(exchange.plan().wanted, {1, 1}, Order::kPlain);
    if (group.rank() == 1) done.wait();  // a barrier would deadlock
    for (int i = 0; i < 2; ++i)
      exchange.finish(exchange.start(tile.view()), got.view());
    if (group.rank() == 0) done.count_down();
  });
}

// With Reads::kLater a rank continues before its tile has been read.
TEST(HaloExchange, GoesOnWhileItsTileIsRead) {
  ExchangeCase test;
  test.tiling = Tiling::balanced(Grid::parse("2"), {10});
  test.needs.assign(2, test.tiling.whole());
  test.is_in_arena = true;
  std::latch is_finished(1);
  run_threads(2, [&](const Group& group) {
    HaloExchange exchange(group, plan_of(test, group.rank()), DType::kF32);
    Tile<float> tile = image_tile<float>(test, group);
    Tile<float> got(exchange.plan().wanted, {1, 1}, Order::kPlain);
    const auto handle = exchange.start(
        tile.view(), group.rank() == 0 ? Reads::kLater : Reads::kAwaited);
    EXPECT_EQ(handle.bytes_in_place(), 5 * 4);
    if (group.rank() == 1) is_finished.wait();
    exchange.finish(handle, got.view());
    EXPECT_TRUE(got.holds(
        [&](const Place& place) { return exact_value(place, test.salt); }));
    if (group.rank() == 1) return;
    EXPECT_FALSE(handle.is_read());
    is_finished.count_down();
    exchange.wait_read(handle);
    EXPECT_TRUE(handle.is_read());
    tile.fill([](const Place&) { return 55.0; });
  });
}

// The summation order is fixed, so rounding is the same every time.
TEST(HaloExchange, AddsInTheOrderOfRanks) {
  const Tiling tiling(Grid::parse("4"), {Cuts({0, 0, 1, 1, 1})});
  const std::vector<Box> needs(4, tiling.whole());
  const float big = 1 << 24;
  // Rank 1's own value first, then ranks 0, 2, 3: (1 + big) + 1 - big.
  const float values[] = {big, 1, 1, -big};
  for (int i = 0; i < 20; ++i)
    run_threads(4, [&](const Group& group) {
      HaloExchange exchange(group, make_plan(tiling, needs, group.rank()),
                            DType::kF32);
      Tile<float> wanted(exchange.plan().wanted, {1, 1}, Order::kPlain);
      wanted.fill([&](const Place&) { return values[group.rank()]; });
      Tile<float> tile(exchange.plan().tile, {1, 1}, Order::kPlain);
      exchange.finish_adjoint(exchange.start_adjoint(wanted.view()),
                              tile.view());
      const float expected = ((1 + big) + 1) - big;
      EXPECT_TRUE(tile.holds([&](const Place&) { return expected; }));
    });
}

TEST(HaloExchange, RefusesWhatDoesNotFitThePlan) {
  run_threads(1, [](const Group& group) {
    const Tiling tiling = Tiling::balanced(Grid::parse("1"), {8});
    const std::vector<Box> needs{tiling.whole()};
    const HaloPlan plan = make_plan(tiling, needs, 0);
    HaloExchange exchange(group, plan, DType::kI32);
    Tile<int> tile(plan.tile, {1, 2}, Order::kPlain);
    Box small;
    small[0] = {0, 7};
    Tile<int> wrong(small, {1, 2}, Order::kPlain);
    expect_throws<UsageError>([&] { exchange.start(wrong.view()); },
                              {"tile", "7 positions", "has 8"});
    expect_throws<UsageError>([&] { exchange.start_adjoint(tile.view()); },
                              {"i32", "bf16"});
    expect_throws<UsageError>([&] { exchange.finish({}, tile.view()); },
                              {"start()"});
    auto handle = exchange.start(tile.view());
    Tile<int> fewer(plan.tile, {1, 1}, Order::kPlain);
    expect_throws<UsageError>([&] { exchange.finish(handle, fewer.view()); },
                              {"1x2", "1x1"});
    exchange.finish(handle, tile.view());
    expect_throws<UsageError>([&] { exchange.finish_adjoint({}, tile.view()); },
                              {"start_adjoint()"});
    expect_throws<UsageError>(
        [&] {
          exchange.finish_adjoint(exchange.start(tile.view()), tile.view());
        },
        {"start_adjoint()"});
    HaloPlan other = plan;
    other.rank = 1;
    expect_throws<UsageError>([&] { HaloExchange(group, other, DType::kF32); },
                              {"of rank 1"});
  });
}

class HaloFailures : public testing::TestWithParam<Hosts> {};

ExchangeCase neighbors(int ranks) {
  ExchangeCase test;
  test.tiling = Tiling::balanced(Grid::parse(std::to_string(ranks)), {12});
  test.needs.assign(static_cast<std::size_t>(ranks), test.tiling.whole());
  return test;
}

TEST_P(HaloFailures, APeerThatEndsIsAnError) {
  const test::ExpectFailures expected;
  const auto outcomes = test::outcomes(
      GetParam(),
      [](const Group& group) {
        const ExchangeCase test = neighbors(group.size());
        HaloExchange exchange(group, plan_of(test, group.rank()), DType::kF32);
        check_forward<float>(group, exchange, test);
        if (group.rank() == 1) throw CommError("this rank gives up");
        check_forward<float>(group, exchange, test);
      },
      /*deserter=*/1);
  EXPECT_EQ(outcomes[0].ending, Ending::kCommError) << outcomes[0];
}

TEST_P(HaloFailures, APeerThatIsLateIsATimeout) {
  const test::ExpectFailures expected;
  topo::Options options;
  options.timeout_ms = 200;
  const auto outcomes = test::outcomes(
      GetParam(),
      [](const Group& group) {
        const ExchangeCase test = neighbors(group.size());
        HaloExchange exchange(group, plan_of(test, group.rank()), DType::kF32);
        check_forward<float>(group, exchange, test);
        if (group.rank() != 1) check_forward<float>(group, exchange, test);
      },
      /*deserter=*/-1, options);
  EXPECT_EQ(outcomes[0].ending, Ending::kTimeout) << outcomes[0];
  EXPECT_TRUE(outcomes[0].names("halo #2") || outcomes[0].names("recv"))
      << outcomes[0];
}

INSTANTIATE_TEST_SUITE_P(Hosts, HaloFailures,
                         testing::Values(Hosts{"a", "a"}, Hosts{"a", "b"}),
                         test::joined);

TEST(HaloExchange, DifferentPlanesAreAMismatch) {
  const test::ExpectFailures expected;
  const auto outcomes = test::outcomes({"a", "a"}, [](const Group& group) {
    ExchangeCase test = neighbors(group.size());
    HaloExchange exchange(group, plan_of(test, group.rank()), DType::kF32);
    test.outer = {1, 4};
    check_forward<float>(group, exchange, test);
    test.outer = {1, group.rank() == 0 ? 2 : 3};
    check_forward<float>(group, exchange, test);
  });
  EXPECT_EQ(outcomes[0].ending, Ending::kMismatch) << outcomes[0];
  EXPECT_TRUE(outcomes[0].names("2 planes, rank 1 of 3")) << outcomes[0];
}

// Exchanges are created and destroyed; the arena has room for only a few.
TEST(HaloExchange, GivesItsMemoryBack) {
  setenv("SHEAF_ARENA_BYTES", "100000000", /*overwrite=*/1);
  run_threads(3, [](const Group& group) {
    ExchangeCase test;
    test.tiling = Tiling::balanced(Grid::parse("3"), {3 << 16});
    test.needs.assign(3, test.tiling.whole());
    for (int i = 0; i < 40; ++i) {
      test.outer = {1, 8};
      HaloExchange exchange(group, plan_of(test, group.rank()), DType::kF32);
      Tile<float> tile(exchange.plan().tile, test.outer, Order::kPlain);
      Tile<float> got(exchange.plan().wanted, test.outer, Order::kPlain);
      exchange.finish(exchange.start(tile.view()), got.view());
    }
  });
  unsetenv("SHEAF_ARENA_BYTES");
}

}  // namespace
}  // namespace sheaf::halo
