// Calls that would never return. A rescue takes four periods of 100 ms.

#include "sheaf/comm/process/rescue.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <latch>

#include "sheaf/base/error.hpp"
#include "tests/comm/process/runtimes.hpp"

namespace sheaf::comm {
namespace {

using test::run_runtimes;

// The thread sanitizer does not survive a jump out of a call that std::async
// makes through pthread_once().
#ifdef __SANITIZE_THREAD__
#define SKIP_WITH_THREAD_SANITIZER() GTEST_SKIP() << "jumps out of a call"
#else
#define SKIP_WITH_THREAD_SANITIZER()
#endif

// The reason for which an endless call of this rank was interrupted.
std::string reason_of_rescue(Runtime& runtime) {
  Breakable library;
  const Rescue rescue(library, runtime);
  EXPECT_FALSE(library.run([] {
    for (;;) pause();
  }));
  return library.reason();
}

TEST(Rescue, NamesTheFirstDeathAmongTheAlarms) {
  SKIP_WITH_THREAD_SANITIZER();
  run_runtimes({"a", "a", "a"}, [](Runtime& runtime) {
    if (runtime.rank() != 0) return;
    runtime.raise(AlarmKind::kMismatch, 1, 0, "they disagree");
    runtime.raise(AlarmKind::kRankDied, 2, -1, "");
    runtime.raise(AlarmKind::kRankDied, 1, -1, "");
    EXPECT_EQ(reason_of_rescue(runtime), "rank 2 has died");
  });
}

// Rank 1 has ended in an orderly way, rank 2 has not.
TEST(Rescue, ReportsADeathOnItsHostToAllOthers) {
  SKIP_WITH_THREAD_SANITIZER();
  run_runtimes({"a", "a", "a"}, [](Runtime& runtime) {
    if (runtime.rank() == 1) runtime.memory().end_leave();
    if (runtime.rank() != 0) return runtime.memory().play_dead();
    EXPECT_EQ(reason_of_rescue(runtime), "rank 2 has died");
    std::vector<AlarmRecord> raised;
    AlarmReader().for_each_new(
        runtime.memory().alarm(),
        [&](const AlarmRecord& record) { raised.push_back(record); });
    ASSERT_EQ(raised.size(), 1u);
    EXPECT_EQ(raised[0].kind, AlarmKind::kRankDied);
    EXPECT_EQ(raised[0].rank, 2);
    EXPECT_EQ(raised[0].group, -1);
  });
}

constexpr CallNumber kLastCollective{.group = 3, .serial = 9, .sequence = 5};
constexpr CallNumber kLastPlain{
    .group = kPlainCalls, .serial = 0, .sequence = 2};

constexpr CallNumber call_before(CallNumber call) {
  --call.sequence;
  return call;
}

void end_after(Runtime& runtime, const CallNumber& collective,
               const CallNumber& plain) {
  runtime.my_end().note_call(collective);
  runtime.my_end().note_call(plain);
  runtime.my_end().note_end();
}

// Puts this rank into an operation with the number of the last collective.
std::uint64_t begin_operation(Runtime& runtime, Operation operation) {
  return runtime.memory()
      .header(runtime.host_map().local)
      .flight.begin(
          {.operation = operation, .sequence = kLastCollective.sequence},
          kLastCollective.group);
}

// Rank 4 lacks a plain call of the library, rank 5 a collective.
TEST(Rescue, NamesTheRankThatEndedBeforeTheCallInProgress) {
  SKIP_WITH_THREAD_SANITIZER();
  const auto ended = [](int rank) {
    return concat("rank ", rank,
                  " has exited normally while this rank waits for "
                  "it");
  };
  run_runtimes(std::vector<std::string>(6, "a"), [&](Runtime& runtime) {
    const int rank = runtime.rank();
    if (rank == 4)
      return end_after(runtime, kLastCollective, call_before(kLastPlain));
    if (rank == 5)
      return end_after(runtime, call_before(kLastCollective), kLastPlain);
    runtime.my_end().note_call(kLastCollective);
    runtime.my_end().note_call(kLastPlain);
    std::uint64_t ticket = 0;
    if (rank < 3)
      ticket = begin_operation(
          runtime, rank == 2 ? Operation::kSend : Operation::kAllReduce);
    if (rank == 1)
      runtime.memory().header(runtime.host_map().local).flight.end(ticket);
    // Only rank 0 is in a collective: that of rank 1 has ended.
    EXPECT_EQ(reason_of_rescue(runtime), ended(rank == 0 ? 5 : 4));
  });
}

// Rank 2 has made the call that rank 0 waits in, and not that of rank 1. The
// call of rank 0 begins first, so its four periods are over first.
TEST(Rescue, LeavesACallAloneThatTheEndedRankHasMade) {
  std::latch is_waiting(1);
  std::latch is_over(1);
  run_runtimes({"a", "a", "a"}, [&](Runtime& runtime) {
    if (runtime.rank() == 2)
      return end_after(runtime, kLastCollective, call_before(kLastPlain));
    if (runtime.rank() == 1) {
      runtime.my_end().note_call(kLastPlain);
      is_waiting.wait();
      EXPECT_NE(reason_of_rescue(runtime), "");
      return is_over.count_down();
    }
    runtime.my_end().note_call(call_before(kLastPlain));
    Breakable library;
    const Rescue rescue(library, runtime);
    EXPECT_TRUE(library.run([&] {
      is_waiting.count_down();
      is_over.wait();
    }));
  });
}

}  // namespace
}  // namespace sheaf::comm
