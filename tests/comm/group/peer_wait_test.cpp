// A rank that does not arrive: the errors of the others name it and the
// position of every rank.

#include <gtest/gtest.h>

#include <fstream>
#include <future>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/point_to_point.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/trial.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::milliseconds;
using test::Case;
using test::Ending;
using test::Hosts;
using test::Outcome;

constexpr milliseconds kShort{300};

class Absence : public testing::TestWithParam<Hosts> {
 protected:
  int absent() const { return static_cast<int>(GetParam().size()) - 1; }

  // All ranks but the last do the operation, followed by barriers if it
  // succeeds.
  std::vector<Outcome> wait_for_absent(Operation operation) const {
    return test::outcomes(GetParam(), [&](const Group& group) {
      barrier(group).wait();
      if (group.rank() == absent()) return;
      Case test{.count = 5000};
      test.options.timeout = kShort;
      test::start(operation, group, test)();
      barrier(group, {.timeout = kShort}).wait();
    });
  }

  void expect_named(Operation operation, const std::vector<Outcome>& all) {
    for (int rank = 0; rank < absent(); ++rank) {
      const auto& outcome = all[static_cast<std::size_t>(rank)];
      SCOPED_TRACE(testing::Message()
                   << name_of(operation) << " on rank " << rank);
      EXPECT_EQ(outcome.ending, Ending::kTimeout) << outcome;
      EXPECT_TRUE(outcome.names("timed out after 300 ms")) << outcome;
      EXPECT_TRUE(
          outcome.names(concat("\n  rank ", absent(), " is after barrier #1")))
          << outcome;
      expect_others_named(rank, outcome);
    }
  }

  void expect_others_named(int rank, const Outcome& outcome) {
    const auto missing = outcome.text.find("not arrived: rank ");
    const auto end = outcome.text.find(';', missing);
    ASSERT_NE(missing, std::string::npos) << outcome;
    EXPECT_NE(outcome.text.substr(missing, end - missing)
                  .find(std::to_string(absent())),
              std::string::npos)
        << outcome;
    for (int other = 0; other < absent(); ++other)
      if (other != rank) {
        EXPECT_TRUE(outcome.names(concat("\n  rank ", other, " is in ")))
            << outcome;
      }
  }

  const test::ExpectFailures failures_;
};

// The worlds spend their time waiting, so they run in parallel.
TEST_P(Absence, IsATimeoutInEveryOperation) {
  std::vector<std::pair<Operation, std::future<std::vector<Outcome>>>> runs;
  for (const Operation operation : test::operations())
    if (operation != Operation::kSend)
      runs.emplace_back(operation, std::async(std::launch::async, [=, this] {
                          return wait_for_absent(operation);
                        }));
  for (auto& [operation, run] : runs) expect_named(operation, run.get());
}

TEST_P(Absence, IsTheOnlyRankThatHasNotArrived) {
  const auto all = test::outcomes(GetParam(), [&](const Group& group) {
    barrier(group).wait();
    if (group.rank() != absent()) barrier(group, {.timeout = kShort}).wait();
  });
  for (int rank = 0; rank < absent(); ++rank) {
    const auto& outcome = all[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(outcome.names(concat("not arrived: rank ", absent(), ";")))
        << outcome;
    EXPECT_TRUE(outcome.names("barrier #2 of group 0")) << outcome;
  }
}

TEST_P(Absence, OfAMessageNamesItsSender) {
  const auto all = test::outcomes(GetParam(), [&](const Group& group) {
    barrier(group).wait();
    if (group.rank() == absent()) return;
    std::vector<float> data(3);
    recv(group, data, absent(), {.tag = 5, .timeout = kShort});
  });
  for (int rank = 0; rank < absent(); ++rank) {
    const auto& outcome = all[static_cast<std::size_t>(rank)];
    EXPECT_EQ(outcome.ending, Ending::kTimeout) << outcome;
    EXPECT_TRUE(outcome.names(concat("not arrived: rank ", absent(), ";")))
        << outcome;
    EXPECT_TRUE(outcome.names("recv #5")) << outcome;
  }
}

TEST_P(Absence, IsATimeoutByTheWorldsOption) {
  topo::Options options;
  options.timeout_ms = 300;
  const auto all = test::outcomes(
      GetParam(),
      [&](const Group& group) {
        if (group.rank() != absent()) barrier(group).wait();
      },
      /*deserter=*/-1, options);
  for (int rank = 0; rank < absent(); ++rank)
    EXPECT_EQ(all[static_cast<std::size_t>(rank)].ending, Ending::kTimeout)
        << all[static_cast<std::size_t>(rank)];
}

// A group that timed out stays failed, without waiting for the timeout again.
TEST_P(Absence, BreaksTheGroupAndNoOther) {
  const auto all = test::outcomes(GetParam(), [&](const Group& world) {
    const Group other = world.split(0);
    if (world.rank() != absent()) {
      const auto first =
          test::outcome_of([&] { barrier(world, {.timeout = kShort}).wait(); });
      const auto second = test::outcome_of([&] { barrier(world).wait(); });
      EXPECT_EQ(first.ending, Ending::kTimeout) << first;
      EXPECT_EQ(second.text, first.text);
    }
    test::start(Operation::kAllReduce, other, {.count = 5000})();
  });
  for (const Outcome& outcome : all)
    EXPECT_EQ(outcome.ending, Ending::kWell) << outcome;
}

INSTANTIATE_TEST_SUITE_P(Hosts, Absence,
                         testing::Values(Hosts{"a", "a", "a"},
                                         Hosts{"a", "b", "c"},
                                         Hosts{"a", "a", "b", "b"}),
                         test::joined);

TEST(Timeout, WritesTheLastOperations) {
  const test::ExpectFailures failures;
  test::outcomes({"a", "a"}, [&](const Group& group) {
    barrier(group).wait();
    if (group.rank() == 0) barrier(group, {.timeout = kShort}).wait();
  });
  std::ifstream file(failures.folder().path() / "sheaf.recent.0.txt");
  std::string first;
  std::string second;
  std::getline(file, first);
  std::getline(file, second);
  EXPECT_EQ(first.find("after barrier #1 of group 0"), 0u) << first;
  EXPECT_EQ(second.find("in barrier #2 of group 0 for"), 0u) << second;
}

}  // namespace
}  // namespace sheaf::comm
