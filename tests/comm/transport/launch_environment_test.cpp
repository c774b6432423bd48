#include "sheaf/comm/transport/launch_environment.hpp"

#include <gtest/gtest.h>

#include "sheaf/comm/group/world.hpp"
#include "sheaf/comm/transport/transport.hpp"
#include "tests/comm/transport/launcher_variables.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

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
