#include "sheaf/comm/group/perform.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/argument_checks.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/outcomes.hpp"

namespace sheaf::comm {
namespace {

// The calls of one rank; tests with an observer have one rank only.
std::vector<std::string> observed_calls;

const Observer kRecorder{.begin =
                             [](const Fingerprint& call, int ranks) {
                               observed_calls.push_back(concat(
                                   name_of(call.operation), " of ", ranks));
                             },
                         .end = [] { observed_calls.emplace_back("end"); }};

class PerformedCalls : public testing::Test {
 protected:
  ~PerformedCalls() override { set_observer(nullptr); }

  template <class Body>
  static void perform_barrier(const Group& group, Body body) {
    perform(group.core(),
            make_fingerprint(Operation::kBarrier, DType::kU8, 0, {}),
            std::chrono::milliseconds(0), nullptr, 0, body);
  }
};

TEST_F(PerformedCalls, AreObservedFromBeginToEnd) {
  observed_calls.clear();
  run_threads(1, [](const Group& group) {
    set_observer(&kRecorder);
    perform_barrier(group, [](CollectiveCall& call) {
      EXPECT_EQ(observed_calls, std::vector<std::string>{"barrier of 1"});
      EXPECT_EQ(call.sequence(), 1u);
      EXPECT_EQ(call.group().runtime().calls(), 1);
    });
    EXPECT_EQ(group.core().runtime().calls(), 0);
    set_observer(nullptr);
    perform_barrier(group, [](CollectiveCall&) {});
  });
  EXPECT_EQ(observed_calls, (std::vector<std::string>{"barrier of 1", "end"}));
}

TEST_F(PerformedCalls, ThatFailAreObservedToTheirEnd) {
  const test::ExpectFailures failures;
  observed_calls.clear();
  run_threads(1, [](const Group& group) {
    set_observer(&kRecorder);
    EXPECT_THROW(perform_barrier(
                     group, [](CollectiveCall&) { throw IoError("no room"); }),
                 IoError);
    set_observer(nullptr);
  });
  EXPECT_EQ(observed_calls.back(), "end");
}

TEST_F(PerformedCalls, ThatFailLeaveTheGroupFailed) {
  const test::ExpectFailures failures;
  run_threads(1, [](const Group& group) {
    EXPECT_THROW(perform_barrier(
                     group, [](CollectiveCall&) { throw IoError("no room"); }),
                 IoError);
    EXPECT_TRUE(group.core().runtime().has_failed());
    bool was_called = false;
    expect_throws<IoError>(
        [&] {
          perform_barrier(group, [&](CollectiveCall&) { was_called = true; });
        },
        {"no room"});
    EXPECT_FALSE(was_called);
  });
  EXPECT_TRUE(
      std::filesystem::exists(failures.folder().path() / "sheaf.recent.0.txt"));
}

// What a rank passes on arrival is what the others read.
TEST_F(PerformedCalls, PassTheirPayload) {
  run_threads(3, [](const Group& group) {
    const int mine = 10 + group.rank();
    perform(group.core(),
            make_fingerprint(Operation::kBarrier, DType::kU8, 0, {}),
            std::chrono::milliseconds(0), &mine, sizeof mine,
            [](CollectiveCall& call) {
              for (int member = 0; member < 3; ++member) {
                int theirs = 0;
                std::memcpy(&theirs, call.payload(member, sizeof theirs),
                            sizeof theirs);
                EXPECT_EQ(theirs, 10 + member);
              }
            });
  });
}

}  // namespace
}  // namespace sheaf::comm
