#include "sheaf/parallel/common/exchange_queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace sheaf::parallel {
namespace {

class ExchangeQueueTest : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(ExchangeQueue, ExchangeQueueTest, testing::Bool());

TEST_P(ExchangeQueueTest, RunsJobsInOrderAndWaitsForTheFirst) {
  ExchangeQueue queue(GetParam());
  std::vector<int> done;
  for (int pass = 0; pass < 3; ++pass) {
    done.clear();
    std::atomic<bool> may_end = false;
    queue.add([&] { done.push_back(0); });
    queue.add([&] { done.push_back(1); });
    queue.wait_for(2);
    EXPECT_EQ(done, (std::vector{0, 1}));
    // A job after those that are waited for need not have ended.
    queue.add([&] {
      while (!may_end) std::this_thread::yield();
      done.push_back(2);
    });
    queue.wait_for(2);
    EXPECT_EQ(done.size(), 2u);
    may_end = true;
    queue.finish();
    EXPECT_EQ(done, (std::vector{0, 1, 2}));
  }
}

TEST_P(ExchangeQueueTest, RunsJobsOnTheThreadThatWaitsUnlessItOverlaps) {
  ExchangeQueue queue(GetParam());
  std::thread::id thread;
  queue.add([&] { thread = std::this_thread::get_id(); });
  queue.finish();
  EXPECT_EQ(thread == std::this_thread::get_id(), !GetParam());
}

TEST_P(ExchangeQueueTest, RethrowsAndDropsTheJobsAfterAnError) {
  ExchangeQueue queue(GetParam());
  bool was_run = false;
  for (const bool waits_for_all : {false, true}) {
    queue.add([] { throw std::runtime_error("as asked"); });
    queue.add([&] { was_run = true; });
    if (waits_for_all)
      EXPECT_THROW(queue.finish(), std::runtime_error);
    else
      EXPECT_THROW(queue.wait_for(2), std::runtime_error);
    queue.discard();
    EXPECT_FALSE(was_run);
  }
  queue.add([&] { was_run = true; });  // the next pass
  queue.wait_for(1);
  EXPECT_TRUE(was_run);
}

TEST_P(ExchangeQueueTest, DiscardsThePass) {
  ExchangeQueue queue(GetParam());
  int runs = 0;
  queue.add([&] { ++runs; });
  queue.add([] { throw std::runtime_error("as asked"); });
  queue.discard();
  // Other ranks may take part in a job of the worker thread.
  EXPECT_EQ(runs, GetParam() ? 1 : 0);
  queue.add([&] { runs = 10; });
  queue.wait_for(1);
  EXPECT_EQ(runs, 10);
}

}  // namespace
}  // namespace sheaf::parallel
