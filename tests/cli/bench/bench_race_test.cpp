#include "sheaf/cli/bench/bench_race.hpp"

#include <gtest/gtest.h>

#include "sheaf/cli/bench/bench_shape.hpp"
#include "sheaf/comm/group/world.hpp"

namespace sheaf::cli {
namespace {

using comm::Operation;

TEST(BenchRace, BlocksAlternate) {
  comm::run_threads(2, [](const comm::Group& group) {
    std::string order;
    const std::vector<Contestant> contestants{
        {.run = [&](std::size_t) { order += 'a'; }, .warmup = 0},
        {.run = [&](std::size_t) { order += 'b'; }, .warmup = 0}};
    const auto timings =
        race(group, contestants, {.blocks = 3, .iterations = 2});
    ASSERT_GE(order.size(), 12u);
    EXPECT_EQ(order.substr(order.size() - 12), "aabbaabbaabb");
    EXPECT_EQ(timings[0].us.count, 3u);
    EXPECT_EQ(timings[1].iterations, 2);
  });
}

TEST(BenchRace, IterationsAreNumberedFromTheFirst) {
  comm::run_threads(1, [](const comm::Group& group) {
    std::vector<std::size_t> numbers;
    const std::vector<Contestant> one{
        {.run = [&](std::size_t i) { numbers.push_back(i); }, .warmup = 3}};
    race(group, one, {.blocks = 2, .iterations = 2});
    for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], i);
  });
}

TEST(BenchRace, AllRanksGetTheTimesOfTheSlowest) {
  std::vector<double> medians(2);
  comm::run_threads(2, [&](const comm::Group& group) {
    const std::vector<Contestant> one{{.run = [](std::size_t) {}}};
    medians[static_cast<std::size_t>(group.rank())] =
        race(group, one, {.blocks = 5})[0].us.median;
  });
  EXPECT_EQ(medians[0], medians[1]);
  EXPECT_GT(medians[0], 0);
}

TEST(BenchBound, OneHostIsBoundByItsMemory) {
  topo::Machine machine;
  machine.shm_memory_gbs = 10;
  const topo::Placement placement{
      .ranks = 4, .hosts = 1, .ranks_per_host = 4, .dims = {}};
  // 2PS/M: 8 MB at 10 GB/s.
  EXPECT_DOUBLE_EQ(bound_us(Operation::kAllReduce, machine, placement, 1e6),
                   800);
  EXPECT_DOUBLE_EQ(bound_us(Operation::kBroadcast, machine, placement, 1e6),
                   400);
  EXPECT_DOUBLE_EQ(bound_us(Operation::kBarrier, machine, placement, 0), 0);
}

TEST(BenchBound, SeveralHostsAreBoundByTheirNetwork) {
  topo::Machine machine;
  machine.shm_memory_gbs = 1000;
  machine.network.bandwidth_gbs = 0.125;
  const topo::Placement placement{
      .ranks = 4, .hosts = 2, .ranks_per_host = 2, .dims = {}};
  const auto bound = [&](Operation operation) {
    return bound_us(operation, machine, placement, 1e6);
  };
  EXPECT_DOUBLE_EQ(bound(Operation::kAllReduce), 8000);  // 2(q-1)/q S/G
  EXPECT_DOUBLE_EQ(bound(Operation::kBroadcast), 8000);
  EXPECT_DOUBLE_EQ(bound(Operation::kAllGather), 4000);
  EXPECT_DOUBLE_EQ(bound(Operation::kAllToAll), 8000);
}

}  // namespace
}  // namespace sheaf::cli
