#include <signal.h>

#include "tests/cli/run_sheaf.hpp"

// Runs that end early: by signals, by the timeout, and by kill -9 of any
// process of the run. No process may be left behind.
namespace sheaf::cli {
namespace {

constexpr int kRanks = 3;

class RunEnd : public RunSheaf {
 protected:
  // Ranks that ignore SIGTERM and SIGINT and have child processes. Each records
  // the process ids of itself, its child and its wrapper.
  void start_stubborn() {
    const std::string program =
        kRank + "trap '' TERM INT HUP; sleep 600 & echo $$ $! $PPID > " +
        file("part") + ".$R; mv " + file("part") + ".$R " + file("pids") +
        ".$R; wait; sleep 600; sleep 600";
    start({"run", "-n", std::to_string(kRanks), "--", "sh", "-c", program});
    ASSERT_TRUE(eventually([this] { return pids().size() == 3 * kRanks; }));
  }

  std::vector<std::string> pids() const {
    std::vector<std::string> all;
    for (int rank = 0; rank < kRanks; ++rank) {
      std::istringstream in(read_file(file(concat("pids.", rank))));
      for (std::string pid; in >> pid;) all.push_back(pid);
    }
    return all;
  }

  void expect_nothing_left() {
    for (const std::string& pid : pids())
      EXPECT_TRUE(eventually([&] { return !is_running(pid); }))
          << read_file("/proc/" + pid + "/cmdline");
  }

  pid_t mpirun() const {
    const std::string self = std::to_string(pid_);
    const std::string children =
        read_file("/proc/" + self + "/task/" + self + "/children");
    return std::stoi(children);
  }
};

TEST_P(RunEnd, SignalsEndAllRanks) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    start_stubborn();
    ::kill(pid_, signal);
    EXPECT_EQ(finish().code, 128 + signal);
    expect_nothing_left();
    for (int rank = 0; rank < kRanks; ++rank)
      std::filesystem::remove(file(concat("pids.", rank)));
  }
}

TEST_P(RunEnd, KilledLauncherLeavesNothing) {
  start_stubborn();
  ::kill(pid_, SIGKILL);
  EXPECT_EQ(finish().code, 137);
  expect_nothing_left();
}

TEST_P(RunEnd, KilledMpirunLeavesNothing) {
  start_stubborn();
  ::kill(mpirun(), SIGKILL);
  EXPECT_NE(finish().code, 0);
  expect_nothing_left();
}

TEST_P(RunEnd, KilledWrapperLeavesNothing) {
  start_stubborn();
  ::kill(std::stoi(pids()[2]), SIGKILL);
  EXPECT_NE(finish().code, 0);
  expect_nothing_left();
}

TEST_P(RunEnd, Timeout) {
  const RunResult result =
      run({"run", "-n", "2", "--timeout", "500ms", "--", "sleep", "600"});
  EXPECT_EQ(result.code, 4);
  EXPECT_NE(result.err.find("--timeout"), std::string::npos) << result.err;
}

TEST_P(RunEnd, ProgramThatLeavesAChildBehind) {
  const RunResult result =
      run({"run", "-n", "2", "--prefix", "--", "sh", "-c",
           kRank + "sleep 600 & echo $! > " + file("child") + ".$R"});
  EXPECT_EQ(result.code, 0);
  for (const char* rank : {".0", ".1"}) {
    const std::string pid = lines_of(read_file(file("child") + rank)).at(0);
    EXPECT_TRUE(eventually([&] { return !is_running(pid); }));
  }
}

TEST_P(RunEnd, UserSignalsReachTheProgram) {
  start({"run", "-n", "2", "--", "sh", "-c",
         kRank + "trap 'echo got it; echo >> " + file("got") +
             "; exit 0' USR1; "
             "echo > " +
             file("ready") +
             ".$R; "
             "while :; do sleep 0.01; done"});
  ASSERT_TRUE(eventually([this] {
    return std::filesystem::exists(file("ready.0")) &&
           std::filesystem::exists(file("ready.1"));
  }));
  ::kill(pid_, SIGUSR1);
  ASSERT_TRUE(eventually(
      [this] { return lines_of(read_file(file("got"))).size() == 2; }));
  const RunResult result = finish();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "got it\ngot it\n");
  EXPECT_EQ(result.err.find("Forwarding"), std::string::npos) << result.err;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RunEnd);
INSTANTIATE_TEST_SUITE_P(Mpi, RunEnd, testing::ValuesIn(installed_mpis()),
                         mpi_test_name);

}  // namespace
}  // namespace sheaf::cli
