#include "sheaf/parallel/common/worker.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "sheaf/comm/group/world.hpp"

namespace sheaf::parallel {
namespace {

TEST(Worker, DoesJobsInOrder) {
  Worker worker;
  std::vector<int> done;
  for (int i = 0; i < 100; ++i) worker.add([&done, i] { done.push_back(i); });
  worker.drain();
  ASSERT_EQ(done.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
}

// Whether a job is added before or after the error that drops it depends on
// timing; many rounds cover both cases.
TEST(Worker, JobsAfterAnErrorAreDroppedAndDrainEnds) {
  Worker worker;
  for (int round = 0; round < 20000; ++round) {
    std::atomic<bool> has_failed = false;
    bool was_dropped = true;
    worker.add([&] {
      has_failed = true;
      throw std::runtime_error("as asked");
    });
    if (round % 2 == 0)
      while (!has_failed) continue;
    worker.add([&] { was_dropped = false; });
    EXPECT_THROW(worker.drain(), std::runtime_error);
    EXPECT_TRUE(was_dropped);
  }
  worker.drain();  // the error is thrown only once
}

TEST(Worker, ExchangesOverlapIfThereAreCoresOrHosts) {
  const auto cores = std::thread::hardware_concurrency();
  for (const int ranks : {1, 2, 4})
    comm::run_threads(ranks, [&](const comm::Group& group) {
      EXPECT_TRUE(should_overlap(Overlap::kOn, group));
      EXPECT_FALSE(should_overlap(Overlap::kOff, group));
      EXPECT_EQ(should_overlap(Overlap::kAuto, group),
                2u * static_cast<unsigned>(ranks) <= cores);
    });
  comm::run_threads({"a", "a", "a", "a", "b"}, [](const comm::Group& group) {
    EXPECT_TRUE(should_overlap(Overlap::kAuto, group));
  });
}

}  // namespace
}  // namespace sheaf::parallel
