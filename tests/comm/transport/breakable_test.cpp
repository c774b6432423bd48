#include "sheaf/comm/transport/breakable.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "tests/comm/transport/breaker.hpp"

namespace sheaf::comm {
namespace {

using test::breaker_of;

#ifdef __SANITIZE_ADDRESS__
using LeaksIgnored = __lsan::ScopedDisabler;
#else
struct [[maybe_unused]] LeaksIgnored {};
#endif

TEST(Breakable, ReturnsWhatTheCallDid) {
  Breakable library;
  int value = 0;
  EXPECT_TRUE(library.run([&] { value = 7; }));
  EXPECT_EQ(value, 7);
  EXPECT_EQ(library.call(), 0u);
  EXPECT_FALSE(library.is_broken());
}

TEST(Breakable, ReturnsFromACallThatSleepsForever) {
  Breakable library;
  auto breaker = breaker_of(library, "rank 3 has died");
  EXPECT_FALSE(library.run([] {
    for (;;) pause();
  }));
  breaker.join();
  EXPECT_EQ(library.reason(), "rank 3 has died");
}

TEST(Breakable, ReturnsFromACallThatSpinsForever) {
  Breakable library;
  auto breaker = breaker_of(library, "");
  std::mutex mutex;
  {
    const std::lock_guard lock(mutex);  // of the caller: it is released
    std::atomic<int> rounds = 0;
    EXPECT_FALSE(library.run([&] {
      for (;;) ++rounds;
    }));
  }
  breaker.join();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

// An allocation that is left by a jump would keep the allocator's lock, and the
// next allocation of the thread would wait for it forever. The blocks are
// larger than those that each thread caches without a lock.
TEST(Breakable, NeverLeavesAnAllocation) {
  const LeaksIgnored ignored;  // the last block of a call may be lost
  for (int i = 0; i < 20; ++i) {
    Breakable library;
    auto breaker = breaker_of(library, "");
    EXPECT_FALSE(library.run([] {
      for (std::size_t bytes = 2000;; bytes = bytes % 60'000 + 2000) {
        void* volatile block = std::malloc(bytes);
        std::free(block);
        for (int round = 0; round < 300; ++round) asm volatile("");
      }
    }));
    breaker.join();
    void* volatile block = std::malloc(5000);
    EXPECT_TRUE(block);
    std::free(block);
  }
}

TEST(Breakable, LeavesALoopThatYieldsItsProcessor) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer delays signals until the next call "
                  "that it knows, and it does not know sched_yield()";
#endif
  Breakable library;
  auto breaker = breaker_of(library, "");
  EXPECT_FALSE(library.run([] {
    for (;;) sched_yield();
  }));
  breaker.join();
}

TEST(Breakable, IsNotCalledAgain) {
  Breakable library;
  auto breaker = breaker_of(library, "");
  library.run([] {
    for (;;) pause();
  });
  breaker.join();
  bool was_called = false;
  EXPECT_FALSE(library.run([&] { was_called = true; }));
  EXPECT_FALSE(was_called);
}

TEST(Breakable, LeavesOtherCallsAlone) {
  Breakable library;
  std::uint64_t earlier = 0;
  library.run([&] { earlier = library.call(); });
  EXPECT_NE(earlier, 0u);
  EXPECT_TRUE(library.run([&] { library.interrupt(earlier, "late"); }));
  library.interrupt(earlier, "late");
  EXPECT_FALSE(library.is_broken());
}

}  // namespace
}  // namespace sheaf::comm
