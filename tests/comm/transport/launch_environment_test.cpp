#include "sheaf/comm/transport/launch_environment.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/comm/transport/transport.hpp"
#include "tests/comm/transport/launcher_variables.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

using Hosts = std::vector<std::string>;

TEST(NodeList, NamesHostsInOrder) {
  EXPECT_EQ(expand_node_list("a"), Hosts{"a"});
  EXPECT_EQ(expand_node_list("b,a"), (Hosts{"b", "a"}));
  EXPECT_EQ(expand_node_list("node[01-03,7]"),
            (Hosts{"node01", "node02", "node03", "node7"}));
  EXPECT_EQ(expand_node_list("n[8-11]"), (Hosts{"n8", "n9", "n10", "n11"}));
  EXPECT_EQ(expand_node_list("n[098-101]"),
            (Hosts{"n098", "n099", "n100", "n101"}));
  EXPECT_EQ(expand_node_list("x,n[1,3]-ib,y2.example.org"),
            (Hosts{"x", "n1-ib", "n3-ib", "y2.example.org"}));
  EXPECT_EQ(expand_node_list("r[0-1]n[2-3]"),
            (Hosts{"r0n2", "r0n3", "r1n2", "r1n3"}));
}

// Each of them would need gigabytes.
TEST(NodeList, RefusesListsOfTooManyOrTooLongNames) {
  const std::string zeros(100'000, '0');
  std::string ranges = "n[0-65535";
  for (int i = 0; i < 10'000; ++i) ranges += ",0-65535";
  expect_throws<UsageError>([&] { expand_node_list(ranges + "]"); },
                            {"more than 65536 hosts"});
  for (const std::string& list :
       {"n[" + zeros + "-65535]", zeros + "[0-65535]", zeros + "[0-9]",
        "[0-65535]" + zeros, std::string(256, 'a')})
    expect_throws<UsageError>([&] { expand_node_list(list); },
                              {"more than 255 characters"});
  EXPECT_EQ(expand_node_list(std::string(255, 'a')).size(), 1u);
}

TEST(NodeList, RefusesWhatIsNone) {
  for (const char* list : {"", "a,,b", "a,", "n[1", "n1]", "n[]", "n[1-]",
                           "n[3-1]", "n[a-b]", "n[1,]", "n[-1]"})
    expect_throws<UsageError>([&] { expand_node_list(list); }, {"node list '"});
  expect_throws<UsageError>([&] { expand_node_list("n[0-999999999999]"); },
                            {"more than"});
  expect_throws<UsageError>([&] { expand_node_list("n[0-999]x[0-999]"); },
                            {"more than"});
}

// Lists of a few kilobytes that would expand to gigabytes.
TEST(NodeList, RefusesWhatWouldFillTheMemory) {
  std::string ranges = "n[0-65535";
  for (int i = 0; i < 1000; ++i) ranges += ",0-65535";
  expect_throws<UsageError>([&] { expand_node_list(ranges + "]"); },
                            {"more than 65536 hosts"});
  const std::string zeros(10'000, '0');
  expect_throws<UsageError>(
      [&] { expand_node_list("n[" + zeros + "-" + zeros + "65535]"); },
      {"is not a range"});
  expect_throws<UsageError>(
      [&] { expand_node_list(std::string(10'000, 'n') + "[0-65535]"); },
      {"more than 255 characters"});
}

class Slurm : public LauncherVariables {};

TEST_F(Slurm, TaskOfAStep) {
  set(task(2, 4));
  const auto found = slurm_task();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2);
  EXPECT_EQ(found->tasks, 4);
  EXPECT_EQ(found->tasks_from, "SLURM_STEP_NUM_TASKS");
  EXPECT_EQ(found->nodes, "n[2-3]");
  EXPECT_EQ(found->job, 17);
  EXPECT_EQ(found->step, 3);
}

// A step may have fewer tasks than its job.
TEST_F(Slurm, StepOfFewerTasksThanTheJob) {
  set(with(task(0, 1), {{"SLURM_NTASKS", "8"}}));
  ASSERT_TRUE(slurm_task());
  EXPECT_EQ(slurm_task()->tasks, 1);
  check_is_alone(/*is_mpi=*/false);
}

TEST_F(Slurm, OutsideOfStepsThereIsNoTask) {
  const Values job{{"SLURM_JOB_ID", "17"}, {"SLURM_NTASKS", "4"}};
  set(job);  // the shell of salloc
  EXPECT_FALSE(slurm_task());
  set(with(job, {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}));  // sbatch
  EXPECT_FALSE(slurm_task());
  check_is_alone(/*is_mpi=*/false);
  // Same for the step numbers of batch scripts and interactive shells.
  for (const char* step : {"4294967291", "4294967290"}) {
    set(with(task(0, 4), {{"SLURM_STEP_ID", step}}));
    EXPECT_FALSE(slurm_task());
  }
}

TEST_F(Slurm, ShellOfATerminalIsNoTaskButItsProgramIs) {
  const auto terminal = with(task(0, 4), {{"SLURM_PTY_PORT", "4711"}});
  set(with(terminal, {{"SLURM_TASK_PID", std::to_string(getppid())}}));
  EXPECT_FALSE(slurm_task());
  set(with(terminal, {{"SLURM_TASK_PID", std::to_string(getpid())}}));
  EXPECT_TRUE(slurm_task());
  set(with(terminal, {{"SLURM_PROCID", "1"}}));
  EXPECT_TRUE(slurm_task());
}

TEST_F(Slurm, BrokenVariablesAreRefused) {
  set(with(task(0, 4), {{"SLURM_PROCID", "x"}}));
  expect_throws<UsageError>([&] { slurm_task(); }, {"SLURM_PROCID='x'"});
  set(task(4, 4));
  expect_throws<UsageError>([&] { slurm_task(); }, {"SLURM_PROCID=4"});
  // It was cut to 32 bits: rank 0.
  set(with(task(0, 4), {{"SLURM_PROCID", "4294967296"}}));
  expect_throws<UsageError>([&] { slurm_task(); },
                            {"SLURM_PROCID=4294967296", "too large"});
}

TEST_F(Slurm, PortsOfStepsAtTheSameTimeDiffer) {
  SlurmTask task{.job = 123456, .step = 0};
  const auto first = port_of(task);
  EXPECT_GE(first, 10000);
  EXPECT_LT(first, 30000);
  task.step = 1;
  EXPECT_NE(port_of(task), first);
  task = {.job = 123457, .step = 0};
  EXPECT_NE(port_of(task), first);
}

class LaunchEnvironment : public LauncherVariables {};

TEST_F(LaunchEnvironment, ALoneTaskOfSeveralIsRefused) {
  set(task(1, 4));
  expect_throws<UsageError>(
      [&] { check_is_alone(/*is_mpi=*/false); },
      {"srun has started 4 tasks (SLURM_STEP_NUM_TASKS), of which this "
       "is number 1"});
  expect_throws<UsageError>([&] { init(); }, {"sheaf run"});
  for (const Values& half : {Values{{"WORLD_SIZE", "1"}}, Values{{"RANK", "0"}},
                             Values{{"RANK", "1"}, {"WORLD_SIZE", "1"}}}) {
    set(with(task(1, 4), half));
    expect_throws<UsageError>([&] { init(); }, {"srun has started 4 tasks"});
  }
  set(with(task(1, 4), {{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_EQ(init().size(), 1);  // on purpose
}

// A number that is not understood must not mean that the process is alone.
TEST_F(LaunchEnvironment, NumbersOfRanksAreNumbers) {
  for (const char* text : {"2x", "99999999999", "-1", "two"}) {
    set({{"WORLD_SIZE", text}});
    expect_throws<UsageError>([] { check_is_alone(/*is_mpi=*/false); },
                              {concat("WORLD_SIZE='", text, "'")});
  }
  set({{"OMPI_COMM_WORLD_SIZE", "1e3"}});
  expect_throws<UsageError>([] { check_is_alone(/*is_mpi=*/true); },
                            {"OMPI_COMM_WORLD_SIZE='1e3'"});
}

TEST_F(LaunchEnvironment, ALoneRankOfTorchrunIsRefused) {
  set({{"RANK", "1"}, {"WORLD_SIZE", "2"}});
  expect_throws<UsageError>([&] { init(); }, {"sheaf::tensor::init"});
  set({{"WORLD_SIZE", "2"}});
  expect_throws<UsageError>([&] { init(); }, {"RANK is not set"});
  set({{"RANK", "3"}});
  expect_throws<UsageError>([&] { init(); }, {"RANK=3", "WORLD_SIZE is not"});
}

TEST_F(LaunchEnvironment, ALoneRankOfOtherLaunchersIsRefused) {
  const std::vector<std::pair<std::string, std::string>> variables{
      {"FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
      {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
      {"PALS_RANKID", "PALS_LOCAL_SIZE"}};
  for (const auto& [rank, size] : variables) {
    set({{rank, "0"}, {size, "2"}});
    expect_throws<UsageError>([&] { init(); },
                              {rank + "=0", size + "=2", "sheaf run"});
    set({{rank, "1"}, {size, "1"}});
    expect_throws<UsageError>([&] { init(); }, {rank + "=1"});
    for (const Values& alone :
         {Values{{rank, "0"}, {size, "1"}},
          Values{
              {rank, "1"}, {size, "2"}, {"RANK", "0"}, {"WORLD_SIZE", "1"}}}) {
      set(alone);
      check_is_alone(/*is_mpi=*/false);
    }
  }
}

TEST_F(LaunchEnvironment, ALoneRankOfMpiIsRefused) {
  for (const char* size :
       {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    set({{size, "4"}});
    EXPECT_TRUE(is_under_mpi_launcher()) << size;
    expect_throws<UsageError>([&] { check_is_alone(/*is_mpi=*/true); }, {size});
    // mpirun -n 1 in a step of several tasks is intentional.
    set(with(task(1, 4), {{size, "1"}}));
    check_is_alone(/*is_mpi=*/true);
  }
  set({{"PMIX_RANK", "2"}});
  expect_throws<UsageError>([&] { check_is_alone(/*is_mpi=*/true); },
                            {"PMIX_RANK"});
  set(with(task(0, 4), {{"PMIX_RANK", "0"}}));
  expect_throws<UsageError>([&] { check_is_alone(/*is_mpi=*/true); },
                            {"4 tasks"});
}

TEST_F(LaunchEnvironment, BothVariablesMakeATaskAlone) {
  EXPECT_FALSE(is_meant_to_be_alone());
  for (const Values& values :
       {Values{{"RANK", "0"}}, Values{{"WORLD_SIZE", "1"}},
        Values{{"RANK", "1"}, {"WORLD_SIZE", "1"}},
        Values{{"RANK", "0"}, {"WORLD_SIZE", "2"}},
        Values{{"RANK", ""}, {"WORLD_SIZE", "1"}}}) {
    set(values);
    EXPECT_FALSE(is_meant_to_be_alone());
  }
  set({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_TRUE(is_meant_to_be_alone());
}

TEST_F(LaunchEnvironment, MpiLaunchersAreKnownByTheirVariables) {
  EXPECT_FALSE(is_under_mpi_launcher());
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE",
                           "PMI_RANK", "MV2_COMM_WORLD_SIZE"}) {
    set({{name, "0"}});
    EXPECT_TRUE(is_under_mpi_launcher()) << name;
  }
  set({{"SLURM_PROCID", "0"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}});
  EXPECT_FALSE(is_under_mpi_launcher());
}

}  // namespace
}  // namespace sheaf::comm
