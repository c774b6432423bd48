#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/cli/run_sheaf.hpp"

namespace sheaf::cli {
namespace {

namespace fs = std::filesystem;

const char* const kBase = R"(
data:
  name: synthetic
  arguments: {examples: 80, test_examples: 20, classes: 3, shape: [1, 4, 4]}
network: {name: mlp, arguments: {sizes: [16, 8, 3]}}
optimizer: {name: sgd, learning_rate: 0.1}
global_batch: 8
threads: 1
output: {log_every: 1, checkpoint_every: 7, tensorboard: false}
)";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

class Sweep : public RunSheaf {
 protected:
  void SetUp() override {
    RunSheaf::SetUp();
    ::unsetenv("SHEAF_MPIEXEC");  // the one that the ranks are linked to
    const fs::path program = fs::path(sheaf_program()).parent_path();
    if (!fs::exists(program / "sheaf-torch"))
      GTEST_SKIP() << "built without libtorch";
    write_file(file("base.yaml"), kBase);
  }

  void write_jobs(const std::string& text) {
    write_file(file("jobs.yaml"),
               "base: base.yaml\noutput: " + file("out-runs") + "\n" + text);
  }
  RunResult sweep(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"sweep", file("jobs.yaml")};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  // The output of --dry-run, one row per job.
  std::vector<std::string> listed() {
    const RunResult result = sweep({"--dry-run", "--json"});
    EXPECT_EQ(result.code, 0) << result.err;
    return lines_of(result.out);
  }
  void expect_mistake(const std::string& jobs, const std::string& told) {
    write_jobs(jobs);
    const RunResult result = sweep({"--dry-run"});
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_TRUE(contains(result.err, told)) << result.err;
  }
  std::string in_job(const std::string& job, const std::string& name) const {
    return read_file(file("out-runs/" + job + "/" + name));
  }
  bool has_finished(const std::string& job) const {
    return contains(in_job(job, "summary.json"), "\"ending\": \"finished\"");
  }
  int rows(const std::string& job) const {
    const std::string log = in_job(job, "log.jsonl");
    return static_cast<int>(std::count(log.begin(), log.end(), '\n'));
  }
  // The job's process, found by the folder that only it gets.
  pid_t pid_of_job(const std::string& job) const {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string line = read_file(entry.path() / "cmdline");
      if (contains(line, file("out-runs/" + job)))
        return std::stoi(entry.path().filename());
    }
    return -1;
  }
  // Waits for the first steps; the run would take hours.
  void start_endless_job() {
    write_jobs("set: {epochs: 1000000, seed: [1, 2]}\nname: j_{seed}\n");
    start({"sweep", file("jobs.yaml")});
    ASSERT_TRUE(eventually([&] { return rows("j_1") > 20; }))
        << read_file(file("out")) << read_file(file("err"));
  }
};

TEST_P(Sweep, EveryCombinationHasANameAndItsSettings) {
  write_jobs(
      "ranks: [1, 2]\n"
      "set:\n"
      "  global_batch: [4, 8]\n"
      "  optimizer:\n"
      "    learning_rate: [0.1, 1e-2]\n"
      "cases:\n"
      "  plain:\n"
      "  small_net: {network.arguments.sizes: [16, 3]}\n"
      "skip:\n"
      "  - {ranks: 2, global_batch: [4], case: plain}\n");
  const auto rows = listed();
  ASSERT_EQ(rows.size(), 14u);
  EXPECT_EQ(rows[0], R"({"job": "1_4_0.1_plain", "ranks": 1, "settings": )"
                     R"("global_batch=4 optimizer.learning_rate=0.1", )"
                     R"("state": "to run"})");
  EXPECT_TRUE(contains(rows[1], "\"1_4_0.1_small-net\"")) << rows[1];
  EXPECT_TRUE(contains(rows[1], "network.arguments.sizes=[16, 3]"));
  for (const std::string& row : rows)
    EXPECT_FALSE(contains(row, "\"2_4_") && contains(row, "_plain\"")) << row;
  EXPECT_FALSE(fs::exists(file("out-runs")));
}

TEST_P(Sweep, NamesFollowThePattern) {
  write_jobs(
      "set: {global_batch: [4, 8], parallel.compression: [none, bf16]}\n"
      "repeat: 2\nname: \"x-{repeat}_{compression}_b{batch}\"\n");
  const auto rows = listed();
  ASSERT_EQ(rows.size(), 8u);
  EXPECT_TRUE(contains(rows[1], "\"x-r1_bf16_b4\"")) << rows[1];
  EXPECT_TRUE(contains(rows[7], "\"x-r2_bf16_b8\"")) << rows[7];
}

TEST_P(Sweep, ErrorsHaveTheirLine) {
  expect_mistake("rank: [2]\n",
                 "jobs.yaml:3: unknown key 'rank'; did you mean 'ranks'?");
  expect_mistake("set:\n  epochs: [1]\n  epoch: [1, 2]\n",
                 "jobs.yaml:5: unknown key 'epoch'; did you mean 'epochs'?");
  expect_mistake("set:\n  seed: [1,\n         two]\n",
                 "jobs.yaml:5: seed is 'two'");
  expect_mistake("ranks: [2, 0]\n", "jobs.yaml:3: ranks is 0");
  expect_mistake("set: {seed: [1, 2]}\nname: \"{sed}\"\n",
                 "jobs.yaml:4: name has {sed}; did you mean 'seed'?");
  expect_mistake("set: {seed: [1, 2], epochs: [1, 2]}\nname: \"{seed}\"\n",
                 "gives two jobs the folder '1'");
  expect_mistake("set: {seed: [1, 2]}\nskip: [{seed: 3}]\n", "matches no job");
  expect_mistake("set: {output.folder: [a, b]}\n", "cannot be swept");
  expect_mistake("set: {seed: [1]}\ncases: {a: {seed: 2}}\n",
                 "seed is given twice");
  write_file(file("jobs.yaml"), "ranks: [1]\n");
  EXPECT_TRUE(contains(sweep().err, "there is no `base`"));
  EXPECT_EQ(run({"sweep", file("none.yaml")}).code, 5);
}

TEST_P(Sweep, TheExampleHasSitesBatchesAndExchanges) {
  const std::string example =
      std::string(SHEAF_EXAMPLE_FOLDER) + "/dad_sweep.yaml";
  const RunResult result =
      run({"sweep", example, "--dry-run", "--json", "--output", file("x")});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto rows = lines_of(result.out);
  ASSERT_EQ(rows.size(), 27u);
  EXPECT_TRUE(contains(rows[0], "\"2_16_DDP\"")) << rows[0];
  EXPECT_TRUE(contains(rows[26], "\"8_128_dAD-star\"")) << rows[26];
}

TEST_P(Sweep, FinishedJobsAreNotRunAgain) {
  write_jobs("ranks: [1, 2]\nset: {seed: 3}\n");
  const RunResult first = sweep();
  ASSERT_EQ(first.code, 0) << first.out << first.err;
  EXPECT_TRUE(contains(first.out, "job 2 of 2: 2 finished after"));
  EXPECT_TRUE(contains(first.out, "2 of 2 jobs finished"));
  EXPECT_TRUE(has_finished("1") && has_finished("2"));
  EXPECT_TRUE(contains(in_job("2", "summary.json"), "\"ranks\": 2"));
  EXPECT_FALSE(contains(in_job("1", "output.txt"), "resumed"));
  EXPECT_TRUE(contains(read_file(file("out-runs/sweep.json")),
                       "\"state\": \"finished\""));
  const std::string before = in_job("1", "output.txt");
  EXPECT_TRUE(contains(listed()[0], "\"state\": \"finished\""));

  const RunResult second = sweep();
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_TRUE(contains(second.out, "2 of 2 jobs were already finished"));
  EXPECT_FALSE(contains(second.out, "job 1 of 2"));
  EXPECT_EQ(in_job("1", "output.txt"), before);
  EXPECT_TRUE(
      contains(read_file(file("out-runs/sweep.json")), "\"attempts\": 1"));
}

TEST_P(Sweep, OtherSettingsAreRunAnewAndTheOldKept) {
  write_jobs("set: {seed: [3]}\nname: j\n");
  ASSERT_EQ(sweep().code, 0);
  write_jobs("set: {seed: [4]}\nname: j\n");
  EXPECT_TRUE(contains(listed()[0], "to rerun"));
  const RunResult result = sweep();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(contains(in_job("j", "config.yaml"), "seed: 4"));
  EXPECT_TRUE(contains(read_file(file("out-runs/replaced/j-1/config.yaml")),
                       "seed: 3"));
  EXPECT_TRUE(has_finished("j"));
}

TEST_P(Sweep, AFailureIsReportedAndOtherJobsRun) {
  write_jobs(
      "cases:\n"
      "  good: {seed: 1}\n"
      "  bad: {data: {name: npy, folder: /no/such/folder}}\n"
      "  late: {seed: 2}\n");
  const RunResult result = sweep();
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_TRUE(has_finished("good") && has_finished("late"));
  EXPECT_TRUE(contains(result.out, "2 of 3 jobs finished, 1 failed"))
      << result.out;
  EXPECT_TRUE(contains(result.err, "job bad failed; the end of"));
  EXPECT_TRUE(contains(result.err, "/no/such/folder")) << result.err;
  EXPECT_TRUE(contains(read_file(file("out-runs/sweep.json")),
                       "\"state\": \"failed\""));

  fs::remove_all(file("out-runs"));
  EXPECT_EQ(sweep({"--stop-on-error"}).code, 1);
  EXPECT_TRUE(has_finished("good"));
  EXPECT_FALSE(fs::exists(file("out-runs/late")));
}

TEST_P(Sweep, ASignalStopsTheJobAndTheNextCallGoesOn) {
  start_endless_job();
  ::kill(pid_, SIGINT);
  const RunResult stopped = finish();
  EXPECT_EQ(stopped.code, 128 + SIGINT) << stopped.err;
  EXPECT_TRUE(contains(stopped.out, "to resume: sheaf sweep ")) << stopped.out;
  EXPECT_FALSE(fs::exists(file("out-runs/j_2")));
  EXPECT_TRUE(contains(in_job("j_1", "output.txt"), "the checkpoint is saved"));
  EXPECT_TRUE(contains(listed()[0], "to resume"));
  const std::string first = in_job("j_1", "output.txt");

  start({"sweep", file("jobs.yaml")});
  EXPECT_TRUE(eventually([&] {
    return contains(in_job("j_1", "output.txt").substr(first.size()),
                    "resumed after step ");
  }));
  ::kill(pid_, SIGTERM);
  EXPECT_EQ(finish().code, 128 + SIGTERM);
}

TEST_P(Sweep, AKilledJobFailsAndTheNextCallGoesOn) {
  start_endless_job();
  const pid_t job = pid_of_job("j_1");
  ASSERT_GT(job, 0);
  ::kill(job, SIGKILL);
  ASSERT_TRUE(eventually([&] { return rows("j_2") > 0; }));
  ::kill(pid_, SIGTERM);
  const RunResult result = finish();
  EXPECT_TRUE(contains(result.out, "j_1 failed with code 137")) << result.out;
  EXPECT_TRUE(contains(result.err, "job j_1 failed")) << result.err;

  start({"sweep", file("jobs.yaml")});
  EXPECT_TRUE(eventually([&] {
    return contains(in_job("j_1", "output.txt"), "resumed after step ");
  }));
  ::kill(pid_, SIGTERM);
  EXPECT_EQ(finish().code, 128 + SIGTERM);
}

// The job detects that the sweep has died, saves a checkpoint and ends. Until
// then no other job may use its folder.
TEST_P(Sweep, AKilledSweepLeavesNothingThatStillRuns) {
  start_endless_job();
  ::kill(pid_, SIGKILL);
  finish();
  start({"sweep", file("jobs.yaml")});
  EXPECT_TRUE(eventually([&] {
    if (contains(in_job("j_1", "output.txt"), "resumed after step "))
      return true;
    const pid_t ended = ::waitpid(pid_, nullptr, WNOHANG);
    if (ended == pid_) start({"sweep", file("jobs.yaml")});
    return false;
  })) << read_file(file("err"));
  const RunResult other = [&] {
    const pid_t first = std::exchange(pid_, -1);
    const RunResult result = sweep();
    pid_ = first;
    return result;
  }();
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(contains(other.err, "is running in")) << other.err;
  ::kill(pid_, SIGTERM);
  EXPECT_EQ(finish().code, 128 + SIGTERM);
}

INSTANTIATE_TEST_SUITE_P(Mpi, Sweep, testing::Values("mpirun"), mpi_test_name);

}  // namespace
}  // namespace sheaf::cli
