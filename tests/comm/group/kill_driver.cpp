// kill -9 of a rank in every operation: real processes, started by sheaf run on
// this host and on hosts of the testbed. The other ranks report it; the delay
// is printed and must be shorter than an operation's timeout.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <vector>

#include "sheaf/base/error.hpp"
#include "tests/base/temporary_folder.hpp"

namespace sheaf {
namespace {

// The usual delay is milliseconds; this is far more than a busy machine needs.
constexpr long long kMaxDelayNs = 10'000'000'000;
constexpr int kSkipped = 77;  // scripts/testbed cannot make hosts here

struct Loss {
  std::string operation;
  int ranks = 2;
  int hosts = 1;
  int victim = 0;
  std::string way = "kill";
  std::size_t count = 100;
  std::string memory = "plain";
  int seed = 0;
  bool has_testbed = false;  // false: the hosts are simulated (SHEAF_HOSTS)
};

std::string describe(const Loss& loss) {
  return concat(loss.operation, " of ", loss.count, " ", loss.memory, ", ",
                loss.ranks, " ranks on ", loss.hosts,
                loss.has_testbed ? " hosts of the testbed" : " hosts",
                ", rank ", loss.victim, " goes by ", loss.way);
}

// For GoogleTest.
void PrintTo(const Loss& loss, std::ostream* out) { *out << describe(loss); }

std::string launcher_of(const Loss& loss) {
  if (!loss.has_testbed)
    return concat("SHEAF_HOSTS=", loss.hosts, " ", SHEAF_PROGRAM, " run -n ",
                  loss.ranks, " -- ");
  return concat(TESTBED, " run --hosts ", loss.hosts, " --per-host ",
                loss.ranks / loss.hosts, " --sheaf ", SHEAF_PROGRAM, " -- ");
}

// The report of one rank.
struct Rank {
  std::string process;
  std::string host;
  long long goes_ns = 0;
  long long heard_ns = 0;
  std::string error;  // its kind and its text
};

class Launch {
 public:
  explicit Launch(const Loss& loss) {
    const std::string command = concat(
        "SHEAF_LOG=off SHEAF_DUMP_DIR=", folder_.path(), " ", launcher_of(loss),
        KILL_PROGRAM, " ", loss.operation, " ", loss.count, " ", loss.memory,
        " ", loss.victim, " ", loss.way, " ", loss.seed, " 2>&1");
    pipe_ = popen(command.c_str(), "r");
  }
  ~Launch() { finish(); }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // The next line of output; false at the end.
  bool read_line() {
    char line[4096];
    if (!pipe_ || !fgets(line, sizeof line, pipe_)) return false;
    output_ += line;
    take(line);
    return true;
  }
  int finish() {
    while (read_line()) {
    }
    const int status = pipe_ ? pclose(pipe_) : -1;
    pipe_ = nullptr;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::map<int, Rank>& ranks() { return ranks_; }
  const std::string& output() const { return output_; }

 private:
  void take(const std::string& line) {
    std::istringstream words(line);
    std::string rank, number, verb, link;
    words >> rank >> number >> verb >> link;
    if (rank != "rank" || number.find_first_not_of("0123456789") != number.npos)
      return;
    Rank& teller = ranks_[std::stoi(number)];
    if (verb == "is") words >> teller.process >> link >> teller.host;
    if (verb == "goes") words >> teller.goes_ns;
    if (verb == "heard") {
      words >> teller.heard_ns;
      std::getline(words, teller.error);
    }
  }

  TemporaryFolder folder_;
  FILE* pipe_ = nullptr;
  std::map<int, Rank> ranks_;
  std::string output_;
};

bool is_orderly(const Loss& loss) {
  return loss.way == "return" || loss.way == "exit";
}

bool is_expected(const Loss& loss, const std::string& error) {
  const std::string ended =
      concat("rank ", loss.victim, " has exited normally while");
  return error.find(" CommError") == 0 &&
         (!is_orderly(loss) || error.find(ended) != error.npos);
}

// The launcher blames the lost rank, unless it ended normally.
void expect_blamed(const Loss& loss, const std::string& output) {
  const std::string words = " failed first; exit code ";
  const std::size_t found = output.rfind(words);
  ASSERT_NE(found, output.npos) << output;
  const std::string rank = concat("rank ", loss.victim);
  EXPECT_EQ(output.substr(found - rank.size(), rank.size()) == rank,
            !is_orderly(loss))
      << output;
  if (is_orderly(loss)) {
    EXPECT_NE(output.find(rank + " has exited", found), output.npos) << output;
  }
}

void expect_heard(const Loss& loss, Launch& run) {
  run.finish();
  expect_blamed(loss, run.output());
  std::string delays;
  for (int rank = 0; rank < loss.ranks; ++rank) {
    if (rank == loss.victim) continue;
    const Rank& survivor = run.ranks()[rank];
    EXPECT_TRUE(is_expected(loss, survivor.error))
        << "rank " << rank << " heard: " << survivor.error << "\n"
        << run.output();
    EXPECT_NE(survivor.error.find(concat("rank ", loss.victim)),
              std::string::npos)
        << survivor.error;
    const auto delay_ns = survivor.heard_ns - run.ranks()[loss.victim].goes_ns;
    EXPECT_LT(delay_ns, kMaxDelayNs) << "rank " << rank;
    delays += concat(" ", static_cast<double>(delay_ns / 1000) / 1000, " ms");
  }
  std::printf("%s: heard after%s\n", describe(loss).c_str(), delays.c_str());
}

// Run in parallel, since most of the time is spent on starting processes.
void expect_heard(const std::vector<Loss>& losses) {
  std::vector<std::unique_ptr<Launch>> runs;
  for (const Loss& loss : losses)
    runs.push_back(std::make_unique<Launch>(loss));
  for (std::size_t i = 0; i < losses.size(); ++i) {
    SCOPED_TRACE(describe(losses[i]));
    expect_heard(losses[i], *runs[i]);
  }
}

class Kill : public testing::TestWithParam<const char*> {};

TEST_P(Kill, IsHeardByAll) {
  const Loss loss{.operation = GetParam()};
  Loss small = loss;
  small.victim = 1;
  Loss large = loss;
  large.ranks = 3;
  large.count = 300000;
  large.memory = "arena";
  large.seed = 200;
  Loss hosts = loss;
  hosts.ranks = 3;
  hosts.hosts = 2;
  hosts.victim = 2;
  hosts.count = 300000;
  hosts.seed = 1500;
  expect_heard({small, large, hosts});
}

INSTANTIATE_TEST_SUITE_P(
    Operations, Kill,
    testing::Values("barrier", "broadcast", "reduce", "all_reduce",
                    "all_reduce_n", "gather", "all_gather", "scatter",
                    "reduce_scatter", "all_to_all", "send"),
    [](const auto& info) { return std::string(info.param); });

class Leave : public testing::TestWithParam<const char*> {};

TEST_P(Leave, IsHeardByAll) {
  const Loss loss{.operation = "all_reduce",
                  .ranks = 3,
                  .victim = 1,
                  .way = GetParam(),
                  .count = 5000};
  Loss hosts = loss;
  hosts.hosts = 3;
  Loss first = loss;  // to which all other hosts are connected
  first.hosts = 2;
  first.victim = 0;
  expect_heard({loss, hosts, first});
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Leave, testing::Values("kill", "exit", "return", "throw", "full"),
    [](const auto& info) { return std::string(info.param); });

// MPI itself waits for a dead rank forever.
TEST(KillInPlainMpi, IsHeardByAll) {
  const Loss loss{.operation = "all_reduce", .victim = 1, .memory = "mpi"};
  Loss hosts = loss;
  hosts.ranks = 3;
  hosts.hosts = 2;
  hosts.victim = 2;
  hosts.count = 300000;
  Loss leaving = loss;
  leaving.way = "return";
  Loss leaving_host = leaving;
  leaving_host.hosts = 2;
  expect_heard({loss, hosts, leaving, leaving_host});
}

class TestbedKill : public testing::TestWithParam<Loss> {};

TEST_P(TestbedKill, IsHeardOnTheOtherHost) {
  const Loss& loss = GetParam();
  Launch run(loss);
  if (run.finish() == kSkipped) GTEST_SKIP() << run.output();
  expect_heard(loss, run);
  const int each = loss.ranks / loss.hosts;
  for (int rank = 0; rank < loss.ranks; ++rank)
    EXPECT_EQ(run.ranks()[rank].host, concat("h", rank / each));
}

// 1.2 MB take 10 ms at 1 Gbit/s, so the rank is lost in the middle.
Loss on_testbed(int ranks, int victim) {
  return {.operation = "all_reduce",
          .ranks = ranks,
          .hosts = 2,
          .victim = victim,
          .count = 300000,
          .seed = 1500 + victim,
          .has_testbed = true};
}

std::string name_of_testbed(const testing::TestParamInfo<Loss>& info) {
  return concat("2x", info.param.ranks / 2, "_rank", info.param.victim);
}

INSTANTIATE_TEST_SUITE_P(Hosts, TestbedKill,
                         testing::Values(on_testbed(2, 0), on_testbed(2, 1),
                                         on_testbed(4, 0), on_testbed(4, 3)),
                         name_of_testbed);

bool is_running(const std::string& process) {
  std::string status;
  std::getline(std::ifstream("/proc/" + process + "/stat"), status);
  const auto name_end = status.rfind(')');
  return name_end != status.npos && status.substr(name_end + 2, 1) != "Z";
}

std::string named_memory() {
  std::string names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    if (entry.path().string().find("sheaf") != std::string::npos)
      names += entry.path().string() + " ";
  return names;
}

TEST(KillOfAllRanks, LeavesNothingBehind) {
  const std::string before = named_memory();
  Launch run({.operation = "all_reduce", .ranks = 3, .victim = -1});
  const auto has_started = [&] {
    int count = 0;
    for (const auto& [rank, said] : run.ranks()) count += !said.process.empty();
    return count == 3;
  };
  while (!has_started()) ASSERT_TRUE(run.read_line()) << run.output();
  for (const auto& [rank, said] : run.ranks())
    kill(std::stoi(said.process), SIGKILL);
  EXPECT_NE(run.finish(), 0);
  for (const auto& [rank, said] : run.ranks())
    EXPECT_FALSE(is_running(said.process)) << "rank " << rank;
  EXPECT_EQ(named_memory(), before);
}

}  // namespace
}  // namespace sheaf
