// Starts plain processes, without mpirun, by every method that
// docs/howto/start.md lists.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "sheaf/base/error.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/comm/network/loopback.hpp"
#include "tests/support/missing.hpp"

namespace sheaf {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

struct Ended {
  int code = -1;
  std::string said{};
  std::string log{};
};

std::string text_in(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Program {
 public:
  Program(const std::string& way, std::string output, Variables variables)
      : output_(std::move(output)) {
    pid_ = fork();
    if (pid_ != 0) return;
    // A rank must not assume that MPI started this test.
    for (const char* name :
         {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "PMI_RANK",
          "MV2_COMM_WORLD_SIZE", "RANK", "WORLD_SIZE", "MASTER_ADDR",
          "MASTER_PORT", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_PROCID",
          "SLURM_NTASKS", "SHEAF_SECRET", "SHEAF_SECRET_FILE"})
      unsetenv(name);
    for (const auto& [name, value] : variables)
      setenv(name.c_str(), value.c_str(), 1);
    if (!freopen(log_of(output_).c_str(), "w", stderr)) _exit(126);
    execl(START_PROGRAM, START_PROGRAM, way.c_str(), output_.c_str(), nullptr);
    _exit(127);
  }

  void kill() const { ::kill(pid_, SIGKILL); }

  Ended wait() const {
    int status = 0;
    waitpid(pid_, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_in(output_),
            text_in(log_of(output_))};
  }

 private:
  static std::string log_of(const std::string& output) {
    return output + ".log";
  }

  pid_t pid_ = -1;
  std::string output_;
};

using test::free_port;

class Start : public testing::Test {
 protected:
  std::string file(const std::string& name) const {
    return (folder_.path() / name).string();
  }
  Program start(const std::string& way, int number, Variables variables = {}) {
    return Program(way, file(concat("out", number)), std::move(variables));
  }
  void expect(const std::vector<Program>& ranks, const std::string& rest) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const Ended ended = ranks[rank].wait();
      EXPECT_EQ(ended.code, 0) << ended.said << ended.log;
      EXPECT_EQ(ended.said, concat(rank, " of ", ranks.size(), rest, "\n"));
    }
  }
  Variables torchrun_variables(int rank, int size) const {
    return {{"RANK", concat(rank)},
            {"WORLD_SIZE", concat(size)},
            {"MASTER_ADDR", "127.0.0.1"},
            {"MASTER_PORT", concat(port_)}};
  }

  TemporaryFolder folder_;
  const std::uint16_t port_ = free_port();
};

TEST_F(Start, AloneWithoutVariables) {
  expect({start("init", 0)}, " over threads on 1 hosts");
}

TEST_F(Start, WithTorchrunsVariables) {
  std::vector<Program> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.push_back(start("init", rank, torchrun_variables(rank, 3)));
  expect(ranks, " over tcp on 1 hosts");
}

// The variables that srun sets without PMI.
Variables slurm_variables(int rank, int size) {
  return {{"SLURM_JOB_ID", concat(getpid())},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", concat(rank)},
          {"SLURM_LOCALID", concat(rank)},
          {"SLURM_NTASKS", concat(size)},
          {"SLURM_STEP_NUM_TASKS", concat(size)},
          {"SLURM_NNODES", "1"},
          {"SLURM_STEP_NODELIST", "localhost"},
          {"SLURMD_NODENAME", "localhost"}};
}

TEST_F(Start, WithSlurmsVariables) {
  for (const int size : {2, 3}) {
    std::vector<Program> ranks;
    for (int rank = 0; rank < size; ++rank)
      ranks.push_back(start("init", rank, slurm_variables(rank, size)));
    expect(ranks, " over tcp on 1 hosts");
  }
}

// srun --mpi=pmi2, which would select MPI; the test names env:// instead.
TEST_F(Start, WithSlurmsVariablesByName) {
  std::vector<Program> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    auto variables = slurm_variables(rank, 2);
    variables.emplace_back("PMI_RANK", concat(rank));
    variables.emplace_back("PMI_SIZE", "2");
    ranks.push_back(start("env://", rank, variables));
  }
  expect(ranks, " over tcp on 1 hosts");
}

TEST_F(Start, WithSlurmsVariablesAtAnotherAddress) {
  std::vector<Program> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    auto variables = slurm_variables(rank, 2);
    variables.emplace_back("SLURM_STEP_NODELIST", "no-such-host[1-2]");
    variables.emplace_back("MASTER_ADDR", "127.0.0.1");
    variables.emplace_back("MASTER_PORT", concat(port_));
    ranks.push_back(start("init", rank, variables));
  }
  expect(ranks, " over tcp on 1 hosts");
}

TEST_F(Start, ATaskOfSlurmIsNeverAlone) {
  const Ended lone = start("comm", 0, slurm_variables(1, 2)).wait();
  EXPECT_EQ(lone.code, 2) << lone.said;
  EXPECT_NE(lone.said.find("srun has started 2 tasks"), std::string::npos)
      << lone.said;
  auto half = slurm_variables(1, 2);
  half.emplace_back("WORLD_SIZE", "1");  // without RANK
  const Ended half_alone = start("init", 0, half).wait();
  EXPECT_EQ(half_alone.code, 2) << half_alone.said;
  auto wrong = slurm_variables(0, 2);
  wrong.emplace_back("SLURM_STEP_NODELIST", "other,localhost");
  const Ended elsewhere = start("init", 0, wrong).wait();
  EXPECT_EQ(elsewhere.code, 2) << elsewhere.said;
  EXPECT_NE(elsewhere.said.find("set MASTER_ADDR"), std::string::npos)
      << elsewhere.said;
}

// A batch script, the shell of salloc, and a task that runs alone.
TEST_F(Start, AloneInsideAnAllocation) {
  const Variables batch{{"SLURM_JOB_ID", "17"},
                        {"SLURM_NTASKS", "4"},
                        {"SLURM_PROCID", "0"},
                        {"SLURM_JOB_NODELIST", "localhost"}};
  auto alone = slurm_variables(1, 4);
  alone.emplace_back("RANK", "0");
  alone.emplace_back("WORLD_SIZE", "1");
  for (const char* way : {"init", "comm"})
    for (const Variables& variables : {batch, alone})
      expect({start(way, 0, variables)}, " over threads on 1 hosts");
}

TEST_F(Start, AtAnAddressInsideATaskOfSlurm) {
  std::vector<Program> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(start(
        concat("tcp://localhost:", port_, "?rank=", rank, "&world_size=2"),
        rank, slurm_variables(rank, 4)));
  expect(ranks, " over tcp on 1 hosts");
}

TEST_F(Start, ALoneRankOfTorchrunIsRefused) {
  const Ended lone = start("init", 0, {{"WORLD_SIZE", "2"}}).wait();
  EXPECT_EQ(lone.code, 2) << lone.said;
  EXPECT_NE(lone.said.find("RANK is not set"), std::string::npos) << lone.said;
}

// The launcher of a different MPI than the program's: MPI_Init finds one rank.
TEST_F(Start, ALoneRankOfMpiIsRefused) {
  for (const char* size : {"OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    const Ended lone = start("init", 0, {{size, "2"}}).wait();
    EXPECT_EQ(lone.code, 2) << lone.said;
    EXPECT_NE(lone.said.find(size), std::string::npos) << lone.said;
  }
}

struct Leaving {
  const char* how;
  const char* wait;
  const char* hosts;
};

// A rank leaves while others wait, over TCP; kill_driver.cpp tests MPI.
class Leave : public Start, public testing::WithParamInterface<Leaving> {};

TEST_P(Leave, IsReportedToWaitingRanks) {
  std::vector<Program> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    auto variables = torchrun_variables(rank, 3);
    variables.emplace_back("START_LEAVE", GetParam().how);
    variables.emplace_back("START_WAIT", GetParam().wait);
    variables.emplace_back("SHEAF_HOSTS", GetParam().hosts);
    variables.emplace_back("SHEAF_LOG", "off");
    variables.emplace_back("SHEAF_DUMP_DIR", folder_.path().string());
    ranks.push_back(start("env://", rank, variables));
  }
  for (const std::size_t rank : {0, 1, 2}) {
    const Ended ended = ranks[rank].wait();
    EXPECT_EQ(ended.code, rank == 1 ? 0 : 3) << ended.said;
    const bool is_reported =
        ended.said.find("rank 1 has exited normally while") !=
        std::string::npos;
    EXPECT_EQ(is_reported, rank != 1) << ended.said;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Leave,
                         testing::Values(Leaving{"return", "all_reduce", "1"},
                                         Leaving{"exit", "all_reduce", "3"},
                                         Leaving{"exit", "recv", "1"},
                                         Leaving{"return", "recv", "3"}),
                         [](const auto& info) {
                           return concat(info.param.how, "_", info.param.wait,
                                         "_", info.param.hosts);
                         });

TEST_F(Start, AsTwoHosts) {
  std::vector<Program> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    auto variables = torchrun_variables(rank, 3);
    variables.emplace_back("SHEAF_HOSTS", "2");
    ranks.push_back(start("env://", rank, variables));
  }
  expect(ranks, " over tcp on 2 hosts");
}

TEST_F(Start, AtAnAddress) {
  std::vector<Program> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(start(
        concat("tcp://localhost:", port_, "?rank=", rank, "&world_size=2"),
        rank));
  expect(ranks, " over tcp on 1 hosts");
}

TEST_F(Start, AtAFile) {
  std::vector<Program> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(
        start(concat("file://", file("meet"), "?rank=", rank, "&world_size=2"),
              rank));
  expect(ranks, " over tcp on 1 hosts");
  EXPECT_NE(access(file("meet").c_str(), F_OK), 0) << "the file was left";
}

// A file that only the user can access contains a random secret. Elsewhere rank
// 0 warns.
TEST_F(Start, WarnsWhereStrangersCanJoin) {
  const Variables secret{{"SHEAF_SECRET", "a secret of this test"}};
  const std::string file_url =
      concat("file://", file("meet"), "?world_size=2&rank=");
  const std::string tcp_url =
      concat("tcp://localhost:", port_, "?world_size=2&rank=");
  const auto does_warn = [&](const std::string& url, const Variables& more) {
    const Program first = start(url + "0", 0, more);
    const Program second = start(url + "1", 1, more);
    const std::string log = first.wait().log + second.wait().log;
    return log.find("no SHEAF_SECRET") != std::string::npos;
  };
  EXPECT_TRUE(does_warn(tcp_url, {}));
  EXPECT_FALSE(does_warn(tcp_url, secret));
  EXPECT_FALSE(does_warn(file_url, {}));
}

// A run that was killed before all ranks joined leaves its file.
TEST_F(Start, AtAFileThatWasLeft) {
  const std::string url =
      concat("file://", file("meet"), "?world_size=2&rank=");
  const Program killed = start(url + "0", 0);
  while (access(file("meet").c_str(), F_OK) != 0) usleep(1000);
  while (text_in(file("meet")).find("/card/0") == std::string::npos)
    usleep(1000);
  killed.kill();
  killed.wait();
  const Program next = start(url + "0", 1);
  const Ended ended = next.wait();
  EXPECT_EQ(ended.code, 2) << ended.said;
  EXPECT_NE(ended.said.find(concat(file("meet"), " was left by an earlier")),
            std::string::npos)
      << ended.said;
  EXPECT_NE(ended.said.find("rm " + file("meet")), std::string::npos);
}

TEST_F(Start, ByTorchrun) {
  const std::string python = "/usr/bin/python3 -m torch.distributed.run ";
  if (std::system((python + "--help >/dev/null 2>&1").c_str()) != 0)
    SHEAF_SKIP_MISSING("no torchrun: Debian's python3-torch is not installed");
  // Without --redirects and --tee torch 1.13 fails under Python 3.11.
  const std::string command =
      concat(python, "--no_python --nproc_per_node 2 --master_port ", port_,
             " --redirects 1 --tee 1 --log_dir ", file("logs"), " ",
             START_PROGRAM, " init > ", file("said"), " 2>&1");
  const int status = std::system(command.c_str());
  const std::string said = text_in(file("said"));
  EXPECT_EQ(status, 0) << said;
  for (const char* rank : {"0 of 2 over tcp", "1 of 2 over tcp"})
    EXPECT_NE(said.find(rank), std::string::npos) << said;
}

}  // namespace
}  // namespace sheaf
