#include "sheaf/comm/host/futex.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace sheaf::comm {
namespace {

using std::chrono::milliseconds;

TEST(Counter, ReachesWhatIsNotGreater) {
  Counter counter;
  EXPECT_TRUE(counter.has_reached(0));
  EXPECT_FALSE(counter.has_reached(1));
  counter.value = 7;
  EXPECT_TRUE(counter.has_reached(7));
  EXPECT_FALSE(counter.has_reached(8));
}

// A group that makes more than 2^32 calls continues from 0.
TEST(Counter, ComparesAcrossTheWrapAround) {
  Counter counter;
  counter.value = 0xffffffffu;
  EXPECT_FALSE(counter.has_reached(0));
  EXPECT_FALSE(counter.has_reached(5));
  counter.value = 2;
  EXPECT_TRUE(counter.has_reached(0xffffffffu));
  EXPECT_TRUE(counter.has_reached(2));
}

TEST(Futex, SleepOnAReachedTargetReturnsAtOnce) {
  Counter counter;
  std::atomic<std::uint32_t> sleepers{0};
  publish(counter, sleepers, 3);
  EXPECT_TRUE(sleep_until(counter, sleepers, 3, std::chrono::hours(1)));
  EXPECT_TRUE(sleep_until(counter, sleepers, 2, std::chrono::hours(1)));
  EXPECT_EQ(sleepers, 0u);
}

TEST(Futex, SleepEndsWithItsSlice) {
  Counter counter;
  std::atomic<std::uint32_t> sleepers{0};
  EXPECT_FALSE(sleep_until(counter, sleepers, 1, milliseconds(1)));
  EXPECT_EQ(sleepers, 0u);
}

// The slice is longer than the timeout of the test: only a wake-up ends it.
TEST(Futex, PublishWakesAllSleepers) {
  Counter counter;
  std::atomic<std::uint32_t> sleepers{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (!sleep_until(counter, sleepers, 1, std::chrono::hours(1))) {
      }
    });
  while (sleepers != 3) std::this_thread::yield();
  publish(counter, sleepers, 1);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sleepers, 0u);
}

}  // namespace
}  // namespace sheaf::comm
