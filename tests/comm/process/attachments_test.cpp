#include "sheaf/comm/process/attachments.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <set>
#include <thread>
#include <vector>

namespace sheaf::comm {
namespace {

struct CountedTuner : Attachment {
  static constexpr Slot kSlot = kTuner;
  CountedTuner(std::atomic<int>& alive, int number)
      : alive(alive), number(number) {
    ++alive;
  }
  ~CountedTuner() override { --alive; }
  std::atomic<int>& alive;
  int number;
};

struct OtherSlot : Attachment {
  static constexpr Slot kSlot = kDeviceGroup;
  int value = 5;
};

TEST(Attachments, TheFirstCallConstructsTheOneThatAllGet) {
  std::atomic<int> alive{0};
  {
    Attachments attachments;
    CountedTuner& first = attachments.get<CountedTuner>(alive, 1);
    CountedTuner& second = attachments.get<CountedTuner>(alive, 2);
    EXPECT_EQ(&first, &second);
    EXPECT_EQ(second.number, 1);
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
}

TEST(Attachments, EachClassHasItsOwnSlot) {
  std::atomic<int> alive{0};
  Attachments attachments;
  EXPECT_EQ(attachments.get<OtherSlot>().value, 5);
  EXPECT_EQ(attachments.get<CountedTuner>(alive, 3).number, 3);
  EXPECT_EQ(attachments.get<OtherSlot>().value, 5);
}

TEST(Attachments, ThreadsConstructOne) {
  constexpr int kThreads = 4;
  std::atomic<int> alive{0};
  Attachments attachments;
  std::vector<CountedTuner*> found(kThreads);
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      found[static_cast<std::size_t>(i)] =
          &attachments.get<CountedTuner>(alive, i);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(std::set(found.begin(), found.end()).size(), 1u);
  EXPECT_EQ(alive, 1);
}

}  // namespace
}  // namespace sheaf::comm
