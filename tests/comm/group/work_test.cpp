// Work: operations that continue while the rank does other things.

#include <gtest/gtest.h>

#include <cmath>
#include <latch>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
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
    work.wait();  // again: returns immediately
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
    all_reduce(group, data).wait();  // after all of those
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

// The test keeps the buffers alive; no thread waits for the operation.
TEST_P(Async, MayBeForgotten) {
  run_threads(GetParam(), [](const Group& world) {
    std::vector<float> data(5000, 1);
    {
      const Group group = world.split(0);
      std::ignore = all_reduce(group, data, {.async = true});
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

TEST(Work, OfNothingRunsActionsAtOnce) {
  std::string seen;
  Work work;
  work.then([&] { seen += 'a'; });
  work.then(
      [&](const std::exception_ptr& error) { seen += error ? 'x' : 'b'; });
  work.append([&] { seen += 'c'; });
  EXPECT_EQ(seen, "abc");
  EXPECT_THROW(work.then([] { throw UsageError("at once"); }), UsageError);
}

// An operation whose end is controlled by the test.
class Controlled : public testing::Test {
 protected:
  std::shared_ptr<Work::State> state_ = std::make_shared<Work::State>();
  Work work_{state_};
  std::string seen_;
};

TEST_F(Controlled, ActionsRunInOrderOnceEach) {
  for (const char name : {'a', 'b', 'c'})
    work_.then([this, name] { seen_ += name; });
  EXPECT_FALSE(work_.test());
  EXPECT_EQ(seen_, "");
  state_->finish(nullptr);
  EXPECT_EQ(seen_, "");
  Work copy = work_;
  copy.wait();
  EXPECT_EQ(seen_, "abc");
  work_.wait();
  EXPECT_TRUE(work_.test());
  EXPECT_EQ(seen_, "abc");
  work_.then([this] { seen_ += 'd'; });
  EXPECT_EQ(seen_, "abcd");
}

TEST_F(Controlled, StepsRunBeforeActionsAndOnce) {
  work_.then([this] { seen_ += 'b'; });
  work_.append([this] { seen_ += 'a'; });
  state_->finish(nullptr);
  EXPECT_TRUE(work_.test());
  work_.wait();
  EXPECT_EQ(seen_, "ab");
}

TEST_F(Controlled, AnActionThatThrowsDoesNotLoseTheOthers) {
  work_.then([this] { seen_ += 'a'; });
  work_.then([] { throw UsageError("the second"); });
  work_.then([] { throw UsageError("the third"); });
  work_.then([this] { seen_ += 'd'; });
  state_->finish(nullptr);
  const auto outcome = test::outcome_of([&] { work_.wait(); });
  EXPECT_TRUE(outcome.names("the second")) << outcome;
  EXPECT_EQ(seen_, "ad");
  EXPECT_TRUE(work_.error());
  EXPECT_THROW(work_.wait(), UsageError);
  EXPECT_TRUE(work_.test());
  EXPECT_EQ(seen_, "ad");
}

TEST_F(Controlled, AnActionAddedLateThrowsAtOnce) {
  state_->finish(nullptr);
  work_.wait();
  EXPECT_THROW(work_.then([] { throw UsageError("late"); }), UsageError);
}

TEST_F(Controlled, ActionsHearOfAnError) {
  std::string heard;
  const auto hear = [&](const std::exception_ptr& error) {
    heard += test::outcome_of([&] { std::rethrow_exception(error); }).text;
  };
  work_.then([this] { seen_ += 'a'; });
  work_.then(hear);
  state_->finish(std::make_exception_ptr(CommError("lost. ")));
  EXPECT_THROW(work_.wait(), CommError);
  work_.then([this] { seen_ += 'b'; });
  work_.then(hear);
  EXPECT_EQ(heard, "lost. lost. ");
  EXPECT_EQ(seen_, "");
  EXPECT_THROW(work_.wait(), CommError);
}

TEST_F(Controlled, AStepThatThrowsIsAFailureOfTheOperation) {
  work_.append([] { throw IoError("no room"); });
  work_.append([this] { seen_ += 'a'; });
  work_.then([this] { seen_ += 'b'; });
  state_->finish(nullptr);
  EXPECT_THROW(work_.wait(), IoError);
  EXPECT_THROW(work_.wait(), IoError);
  EXPECT_EQ(seen_, "");
}

TEST_F(Controlled, ActionsMayUseTheirWork) {
  work_.then([this] {
    work_.wait();
    EXPECT_TRUE(work_.test());
    work_.then([this] { seen_ += 'b'; });
    seen_ += 'a';
  });
  state_->finish(nullptr);
  work_.wait();
  EXPECT_EQ(seen_, "ab");
}

// Every waiting thread sees the effects of the actions, whichever thread ran
// them.
TEST_F(Controlled, SeveralThreadsRunActionsOnce) {
  std::atomic<int> runs{0};
  for (int i = 0; i < 10; ++i)
    work_.then([&] {
      std::this_thread::yield();
      ++runs;
    });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      Work work = work_;
      if (i % 2)
        wait_until_tested(work);
      else
        work.wait();
      EXPECT_EQ(runs, 10);
    });
  state_->finish(nullptr);
  for (auto& thread : threads) thread.join();
}

TEST_F(Controlled, StepsRunWhenTheWorkWasDropped) {
  const auto held = std::make_shared<int>();
  work_.append([this, held] { seen_ += 'a'; });
  work_.then([this, held] { seen_ += 'b'; });
  work_ = {};
  EXPECT_EQ(held.use_count(), 2);
  state_->finish(nullptr);
  state_.reset();
  EXPECT_EQ(seen_, "a");
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(Controlled, StepsDoNotRunAfterAnError) {
  const test::ExpectFailures failures;
  work_.append([this] { seen_ += 'a'; });
  work_ = {};
  state_->finish(std::make_exception_ptr(CommError("lost")));
  state_.reset();
  EXPECT_EQ(seen_, "");
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
