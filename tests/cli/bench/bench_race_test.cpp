#include "sheaf/cli/bench/bench_race.hpp"

#include <gtest/gtest.h>

#include "sheaf/comm/group/world.hpp"

namespace sheaf::cli {
namespace {

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

}  // namespace
}  // namespace sheaf::cli
