// Work: operations that go on while the rank does other things.

#include <gtest/gtest.h>

#include <cmath>
#include <latch>
#include <thread>

#include "sheaf/comm/collectives.hpp"
#include "sheaf/comm/world.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/trial.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::milliseconds;
using test::Case;
using test::Ending;
using test::Hosts;

class Async : public testing::TestWithParam<Hosts> {
 protected:
  const test::ExpectFailures failures_;
};

void wait_until_tested(const Work& work) {
  while (!work.test()) std::this_thread::yield();
}

TEST_P(Async, EndsWhenTheOthersCome) {
  std::latch has_timed_out(1);
  run_threads(GetParam(), [&](const Group& group) {
    std::vector<float> data{1};
    if (group.rank() != 0) has_timed_out.wait();
    Work work = all_reduce(group, data, {.async = true});
    if (group.rank() == 0) {
      EXPECT_FALSE(work.test());
      EXPECT_FALSE(work.error());
      const auto outcome =
          test::outcome_of([&] { work.wait(milliseconds(20)); });
      EXPECT_EQ(outcome.ending, Ending::kTimeout) << outcome;
      EXPECT_TRUE(outcome.names("20 ms")) << outcome;
      EXPECT_FALSE(work.test());
      has_timed_out.count_down();
    }
    work.wait();
    EXPECT_TRUE(work.test());
    EXPECT_FALSE(work.error());
    EXPECT_EQ(data[0], static_cast<float>(group.size()));
    work.wait();  // again, at once
  });
}

TEST_P(Async, KeepsTheOrderOfCalls) {
  run_threads(GetParam(), [](const Group& group) {
    std::vector<test::Finish> under_way;
    for (int round = 0; round < 3; ++round)
      for (const Operation operation : test::operations()) {
        Case test{.count = 700, .first = under_way.size()};
        test.options.async = true;
        under_way.push_back(test::start(operation, group, test));
      }
    for (const auto& finish : under_way) finish();
  });
}

TEST_P(Async, ResultsOfOneCallFeedTheNext) {
  run_threads(GetParam(), [](const Group& group) {
    std::vector<double> data(1000, 1);
    std::vector<Work> works;
    for (int i = 0; i < 10; ++i)
      works.push_back(all_reduce(group, data, {.async = true}));
    all_reduce(group, data);  // after all of those
    EXPECT_EQ(data, std::vector<double>(1000, std::pow(group.size(), 11)));
    for (const Work& work : works) EXPECT_TRUE(work.test());
  });
}

TEST_P(Async, CanBeTestedToItsEnd) {
  run_threads(GetParam(), [](const Group& group) {
    std::vector<float> data(100000, 1);
    const Work work = all_reduce(group, data, {.async = true});
    wait_until_tested(work);
    EXPECT_FALSE(work.error());
    EXPECT_EQ(data[99999], static_cast<float>(group.size()));
  });
}

// Its buffers are kept by the test; nobody waits.
TEST_P(Async, MayBeForgotten) {
  run_threads(GetParam(), [](const Group& world) {
    std::vector<float> data(5000, 1);
    {
      const Group group = world.split(0);
      all_reduce(group, data, {.async = true});
    }
    EXPECT_EQ(data[0], static_cast<float>(world.size()));
  });
}

TEST_P(Async, KeepsItsError) {
  const auto all = test::outcomes(GetParam(), [](const Group& group) {
    std::vector<float> data(group.rank() == 0 ? 10 : 11);
    Work work = all_reduce(group, data, {.async = true});
    Work later = barrier(group, {.async = true});
    wait_until_tested(later);
    const auto outcome = test::outcome_of([&] { later.wait(); });
    EXPECT_EQ(outcome.ending, Ending::kMismatch) << outcome;
    wait_until_tested(work);
    EXPECT_TRUE(work.error() || group.host_count() > 1);
    later.wait(milliseconds(1));
  });
  for (const auto& outcome : all)
    EXPECT_EQ(outcome.ending, Ending::kMismatch) << outcome;
}

INSTANTIATE_TEST_SUITE_P(Hosts, Async,
                         testing::Values(Hosts{"a", "a", "a"},
                                         Hosts{"a", "b", "c"},
                                         Hosts{"a", "a", "b", "b"}),
                         test::joined);

TEST(Work, OfNothingHasEnded) {
  Work work;
  EXPECT_TRUE(work.test());
  EXPECT_FALSE(work.error());
  work.wait();
  work.wait(milliseconds(0));
}

TEST(Work, CanBeWaitedForBySeveralThreads) {
  run_threads(2, [](const Group& group) {
    std::vector<float> data(1000, 1);
    Work work = all_reduce(group, data, {.async = true});
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([work, &data]() mutable {
        work.wait();
        EXPECT_EQ(data[0], 2);
      });
    for (auto& thread : threads) thread.join();
  });
}

}  // namespace
}  // namespace sheaf::comm
