#include "sheaf/comm/transport/breakable.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <mutex>

#include "tests/comm/transport/breaker.hpp"

namespace sheaf::comm {
namespace {

using test::breaker_of;

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
