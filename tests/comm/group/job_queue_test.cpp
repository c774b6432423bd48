#include "sheaf/comm/group/job_queue.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <string>

#include "sheaf/base/error.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

TEST(JobQueue, RunsAJobOnTheThreadOfItsCaller) {
  JobQueue jobs(nullptr);
  std::thread::id thread;
  const Work work = jobs.submit(
      /*async=*/false, [&] { thread = std::this_thread::get_id(); });
  EXPECT_TRUE(work.test());
  EXPECT_EQ(thread, std::this_thread::get_id());
}

TEST(JobQueue, RunsJobsInTheOrderSubmitted) {
  JobQueue jobs(nullptr);
  std::latch may_start(1);
  std::string order;
  const Work first = jobs.submit(/*async=*/true, [&] {
    may_start.wait();
    order += 'a';
  });
  const Work second = jobs.submit(/*async=*/true, [&] { order += 'b'; });
  EXPECT_FALSE(first.test());
  may_start.count_down();
  // This job waits for the others, although it is not asynchronous.
  jobs.submit(/*async=*/false, [&] { order += 'c'; }).wait();
  EXPECT_EQ(order, "abc");
  EXPECT_TRUE(second.test());
}

TEST(JobQueue, AJobThatThrowsDoesNotStopTheQueue) {
  JobQueue jobs(nullptr);
  Work failing = jobs.submit(/*async=*/true, [] { throw IoError("no room"); });
  bool was_run = false;
  jobs.submit(/*async=*/true, [&] { was_run = true; }).wait();
  EXPECT_TRUE(was_run);
  expect_throws<IoError>([&] { failing.wait(); }, {"no room"});
}

TEST(JobQueue, AJobOfTheCallerThrowsAtOnce) {
  JobQueue jobs(nullptr);
  expect_throws<IoError>(
      [&] {
        jobs.submit(/*async=*/false, [] { throw IoError("no room"); }).wait();
      },
      {"no room"});
}

TEST(JobQueue, CompletesItsJobsBeforeItCloses) {
  std::string order;
  std::latch may_start(1);
  JobQueue jobs(nullptr);
  const Work first = jobs.submit(/*async=*/true, [&] {
    may_start.wait();
    order += 'a';
  });
  const Work second = jobs.submit(/*async=*/true, [&] { order += 'b'; });
  may_start.count_down();
  jobs.close();
  EXPECT_EQ(order, "ab");
  EXPECT_TRUE(first.test() && second.test());
}

TEST(JobQueue, CountsQueuedJobs) {
  RankEnd end;
  JobQueue jobs(&end);
  std::latch may_end(1);
  Work work = jobs.submit(/*async=*/true, [&] { may_end.wait(); });
  end.note_end();
  EXPECT_FALSE(end.has_ended());
  may_end.count_down();
  work.wait();
  EXPECT_TRUE(end.has_ended());
}

}  // namespace
}  // namespace sheaf::comm
