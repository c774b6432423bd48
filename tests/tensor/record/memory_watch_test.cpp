#include "sheaf/tensor/record/memory_watch.hpp"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "tests/support/expect_error.hpp"
#include "tests/tensor/record/traced_layer.hpp"

namespace sheaf::tensor {
namespace {

using MemoryOfALayer = TracedLayer;

TEST_F(MemoryOfALayer, MemoryComesAndGoes) {
  const MemoryWatch watch;
  compute();
  weight_.mutable_grad().reset();
  Recorder recorder;
  const std::int64_t before = watch.allocated(at::kCPU);
  compute();
  weight_.mutable_grad().reset();
  recorder.stop();
  const auto& events = recorder.threads()[0]->allocations;
  ASSERT_FALSE(events.empty());
  std::int64_t bytes = 0;
  for (const RecordedAllocation& one : events) {
    bytes += one.bytes;
    EXPECT_EQ(one.total, before + bytes);
  }
  EXPECT_EQ(bytes, 0);
  EXPECT_EQ(watch.allocated(at::kCPU), before);
}

TEST_F(MemoryOfALayer, PhasesHaveTheirPeaks) {
  MemoryWatch watch;
  const at::Tensor kept = torch::empty({1000});
  const PhasePeaks peaks(watch, at::kCPU);
  {
    const Scope phase("sheaf::phase forward");
    torch::empty({250000});
  }
  torch::empty({500000});
  {
    const Scope phase("sheaf::phase backward");
    torch::empty({100});
  }
  const std::int64_t base = peaks.before();
  EXPECT_GE(base, 4000);
  EXPECT_EQ(peaks.peaks().at("forward"), base + 1000000);
  EXPECT_EQ(peaks.peaks().at("backward"), base + 400);
}

// Floats have 4 bytes. The first tensor makes libtorch report the total.
class WatchedMemory : public testing::Test {
 protected:
  std::int64_t allocated() const { return watch_.allocated(at::kCPU); }
  std::int64_t take_peak() { return watch_.take_peak(at::kCPU); }

  MemoryWatch watch_;
  const std::int64_t unknown_ = allocated();
  const at::Tensor first_ = at::empty({10});
  const std::int64_t base_ = allocated();
};

TEST_F(WatchedMemory, CountsFromTheFirstAllocation) {
  EXPECT_EQ(unknown_, 0);
  EXPECT_GE(base_, 40);
  EXPECT_EQ(watch_.allocated(at::kCUDA), 0);
}

TEST_F(WatchedMemory, PeaksAreTaken) {
  at::Tensor kept = at::empty({100});
  at::empty({1000});
  EXPECT_EQ(allocated(), base_ + 400);
  EXPECT_EQ(take_peak(), base_ + 4400);
  EXPECT_EQ(take_peak(), base_ + 400);
  kept.reset();
  EXPECT_EQ(allocated(), base_);
  EXPECT_EQ(take_peak(), base_ + 400);
  EXPECT_EQ(take_peak(), base_);
}

TEST_F(WatchedMemory, APauseHidesWhatHappens) {
  take_peak();
  {
    const MemoryWatch::Pause pause(watch_);
    at::empty({1000});
    EXPECT_EQ(allocated(), base_);
  }
  EXPECT_EQ(take_peak(), base_);
  const at::Tensor seen = at::empty({100});
  EXPECT_EQ(allocated(), base_ + 400);
}

TEST_F(WatchedMemory, OtherThreadsAreNotCounted) {
  std::thread([] { at::empty({1000}); }).join();
  EXPECT_EQ(allocated(), base_);
}

TEST_F(WatchedMemory, RecordersGetEveryAllocation) {
  Recorder recorder;
  const void* address = nullptr;
  {
    const at::Tensor seen = at::empty({100});
    address = seen.data_ptr();
  }
  recorder.stop();
  const auto& events = recorder.threads().at(0)->allocations;
  ASSERT_EQ(events.size(), 2u);
  for (const RecordedAllocation& one : events) {
    EXPECT_EQ(one.address, reinterpret_cast<std::uint64_t>(address));
    EXPECT_EQ(one.device_type, 0);
    EXPECT_EQ(one.device, -1);
  }
  EXPECT_EQ(events[0].bytes, 400);
  EXPECT_EQ(events[0].total, base_ + 400);
  EXPECT_EQ(events[1].bytes, -400);
  EXPECT_EQ(events[1].total, base_);
  EXPECT_LE(events[0].at_ns, events[1].at_ns);
}

TEST_F(WatchedMemory, PhasesKeepTheirLargestPeak) {
  const PhasePeaks peaks(watch_, at::kCPU);
  EXPECT_EQ(peaks.before(), base_);
  for (const std::int64_t count : {100, 1000, 10}) {
    const Scope phase("sheaf::phase forward");
    at::empty({count});
  }
  {
    const Scope other("sheaf::other");
    at::empty({5000});
  }
  EXPECT_EQ(peaks.peaks(),
            (std::map<std::string, std::int64_t>{{"forward", base_ + 4000}}));
}

TEST_F(WatchedMemory, AThreadHasOnePhasePeaks) {
  {
    const PhasePeaks peaks(watch_, at::kCPU);
    expect_throws<UsageError>([&] { PhasePeaks(watch_, at::kCPU); },
                              {"already has an active PhasePeaks"});
    std::thread([] {
      MemoryWatch watch;
      const PhasePeaks own(watch, at::kCPU);
    }).join();
    { const Scope phase("sheaf::phase step"); }
    EXPECT_EQ(peaks.peaks().count("step"), 1u);
  }
  const PhasePeaks next(watch_, at::kCPU);
  EXPECT_TRUE(next.peaks().empty());
}

}  // namespace
}  // namespace sheaf::tensor
