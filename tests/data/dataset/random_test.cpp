#include "sheaf/data/dataset/random.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "sheaf/base/error.hpp"

namespace sheaf::data {
namespace {

// Recorded values: checkpoints and recorded runs depend on these numbers.
TEST(Random, GivesTheNumbersOfItsDefinition) {
  const auto scramble = [](std::uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return bits ^ (bits >> 31);
  };
  // SplitMix64's first number for seed 0, as published.
  const std::uint64_t key = scramble(0x9e3779b97f4a7c15);
  EXPECT_EQ(key, 0xe220a8397b1dcdafu);
  Random random(0);
  EXPECT_EQ(random.next(), scramble(key + 0x9e3779b97f4a7c15));
  EXPECT_EQ(random.next(), scramble(key + 2 * 0x9e3779b97f4a7c15));
}

TEST(Random, DerivesTheSameWhereverItStands) {
  Random fresh(7), used(7);
  used.next();
  EXPECT_EQ(fresh.derive(3).next(), used.derive(3).next());
}

TEST(Random, StreamsDiffer) {
  std::set<std::uint64_t> first;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch)
      for (std::uint64_t index = 0; index < 20; ++index)
        first.insert(Random(seed).derive(epoch).derive(index).next());
  EXPECT_EQ(first.size(), 20u * 20 * 20);
}

TEST(Random, BelowReachesAllAndNoMore) {
  for (const std::uint64_t limit : {1, 2, 3, 7, 8, 100}) {
    Random random(limit);
    std::vector<int> counts(limit);
    for (std::uint64_t i = 0; i < 200 * limit; ++i) {
      const std::uint64_t number = random.below(limit);
      ASSERT_LT(number, limit);
      ++counts[number];
    }
    // 200 expected, standard deviation below 15: the tolerance is about seven
    // of them.
    for (const int count : counts) EXPECT_NEAR(count, 200, 100) << limit;
  }
  Random random;
  EXPECT_THROW(random.below(0), UsageError);
  EXPECT_GT(random.below(~std::uint64_t{0}), 0u);
}

TEST(Random, UniformLiesFrom0To1) {
  Random random(1);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double number = random.uniform();
    ASSERT_GE(number, 0);
    ASSERT_LT(number, 1);
    sum += number;
  }
  // The standard error of the mean is 0.0029; the tolerance is ten times that.
  EXPECT_NEAR(sum / 10000, 0.5, 0.029);
}

}  // namespace
}  // namespace sheaf::data
