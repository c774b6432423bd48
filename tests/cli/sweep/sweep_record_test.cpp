#include "sheaf/cli/sweep/sweep_record.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "sheaf/base/error.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::cli {
namespace {

SweepJob job_named(const std::string& name) {
  SweepJob job;
  job.name = name;
  job.ranks = 2;
  return job;
}

class SweepRecords : public testing::Test {
 protected:
  std::filesystem::path file() const { return folder_.path() / "sweep.json"; }

  const TemporaryFolder folder_;
};

TEST_F(SweepRecords, TheMeanIsOverTheFinishedJobs) {
  SweepRecord record(file());
  EXPECT_EQ(record.mean_seconds(), 0);
  const auto note = [&](const char* name, const char* state, int attempts,
                        double seconds) {
    JobRecord& job = record.of(job_named(name));
    job.state = state;
    job.attempts = attempts;
    job.seconds = seconds;
  };
  note("failed", "failed", 1, 100);
  note("running", "running", 1, 200);
  EXPECT_EQ(record.mean_seconds(), 0);
  note("first", "finished", 1, 2);
  note("second", "finished", 3, 4);
  note("earlier", "finished", 0, 400);  // was finished before this sweep
  EXPECT_EQ(record.mean_seconds(), 3);
}

TEST_F(SweepRecords, AreReadAgain) {
  SweepPlan plan;
  plan.jobs = {job_named("b"), job_named("a")};
  SweepRecord written(file());
  written.of(plan.jobs[0]) = {"failed", 2, 3, 1.5, 7};
  written.save(plan);
  SweepRecord read(file());
  const JobRecord& failed = read.of(plan.jobs[0]);
  EXPECT_EQ(failed.state, "failed");
  EXPECT_EQ(failed.ranks, 2);
  EXPECT_EQ(failed.attempts, 3);
  EXPECT_EQ(failed.seconds, 1.5);
  EXPECT_EQ(failed.exit_code, 7);
  EXPECT_EQ(read.of(plan.jobs[1]).state, "waiting");
  EXPECT_EQ(read.of(plan.jobs[1]).attempts, 0);
}

TEST_F(SweepRecords, ADamagedFileHasNone) {
  for (const char* text : {"{\"jobs\": [{\"name\": \"a\", ", "[]",
                           R"({"jobs": [{"name": "a", "state": "finished",
                               "attempts": 1, "seconds": 5}, {}]})"}) {
    std::ofstream(file()) << text;
    SweepRecord record(file());
    EXPECT_EQ(record.of(job_named("a")).state, "waiting") << text;
    EXPECT_EQ(record.mean_seconds(), 0) << text;
  }
}

TEST_F(SweepRecords, AFileThatCannotBeWrittenIsNamed) {
  const SweepRecord record("/dev/null/sweep.json");
  expect_throws<IoError>([&] { record.save({}); }, {"/dev/null/sweep.json"});
}

TEST_F(SweepRecords, AFolderHasOneSweepAtATime) {
  const auto folder = folder_.path() / "new" / "runs";
  {
    const Fd lock = lock_folder(folder);
    EXPECT_TRUE(lock.is_open());
    expect_throws<UsageError>([&] { lock_folder(folder); },
                              {"another sheaf sweep", folder.string(),
                               "choose another folder with --output"});
  }
  EXPECT_TRUE(lock_folder(folder).is_open());
  expect_throws<IoError>([] { lock_folder("/dev/null/runs"); },
                         {"/dev/null/runs/sweep.lock", "--output"});
}

}  // namespace
}  // namespace sheaf::cli
