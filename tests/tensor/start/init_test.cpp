// Starts worlds of one rank. start_driver.cpp starts processes.

#include "sheaf/tensor/start/init.hpp"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "sheaf/comm/group/group_core.hpp"
#include "sheaf/comm/process/runtime.hpp"
#include "tests/tensor/start/meeting.hpp"

namespace sheaf::tensor {
namespace {

TEST(Init, BackendsAreChecked) {
  EXPECT_TRUE(
      has(error_of<Error>([] { init_process_group({.backend = "glo"}); }),
          "did you mean 'gloo'"));
  if (!at::hasCUDA())
    EXPECT_TRUE(
        has(error_of<Error>([] { init_process_group({.backend = "nccl"}); }),
            "choose gloo or mpi"));
  EXPECT_TRUE(has(error_of<Error>([] {
                    init_process_group(
                        {.backend = "mpi", .init_method = "tcp://h:1"});
                  }),
                  "cannot be used with backend mpi"));
}

// No rank listens at the address: a single rank does not connect.
TEST(Init, AWorldOfOneRankNeedsNoOther) {
  const LaunchVariables environment({});
  const comm::World world = init_process_group(
      {.init_method = "tcp://no-such-host.invalid:1?rank=0&world_size=1",
       .timeout = milliseconds(1234)});
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
  auto& runtime = world.group().core().runtime();
  EXPECT_EQ(runtime.transport().name(), "threads");
  EXPECT_EQ(runtime.options().timeout_ms, 1234);
}

// With an init_method, the variables of an MPI launcher do not matter.
TEST(Init, AnInitMethodOverridesMpi) {
  const LaunchVariables environment(
      {{"OMPI_COMM_WORLD_SIZE", "2"}, {"RANK", "0"}, {"WORLD_SIZE", "1"}});
  const comm::World world = init_process_group({.init_method = "env://"});
  EXPECT_EQ(world.group().core().runtime().transport().name(), "threads");
}

TEST(Init, MissingRanksAreNamed) {
  const LaunchVariables environment({});
  const TemporaryFolder folder;
  expect_throws<TimeoutError>(
      [&] {
        init_process_group(
            {.init_method = concat("file://", folder.path().string(),
                                   "/meet?rank=0&world_size=2"),
             .timeout = milliseconds(1)});
      },
      {"ranks 1 of 2 did not join", "present: 0"});
}

std::string init_error(const LaunchVariables::Values& values) {
  const LaunchVariables environment(values);
  int argc = 0;
  char** argv = nullptr;
  return error_of<UsageError>([&] { EXPECT_EQ(init(argc, argv).size(), 1); });
}

TEST(Init, TheEnvironmentChoosesTheStart) {
  EXPECT_EQ(init_error({}), "");
  EXPECT_EQ(init_error({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "");
  EXPECT_EQ(init_error(LaunchVariables::slurm(0, 1)), "");
  EXPECT_TRUE(has(init_error({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
                  "RANK=2 but WORLD_SIZE=2"));
  EXPECT_TRUE(has(init_error({{"WORLD_SIZE", "2"}}), "RANK is not set"));
  EXPECT_TRUE(has(init_error({{"RANK", "1"}}), "WORLD_SIZE is not"));
  auto nowhere = LaunchVariables::slurm(1, 2);
  nowhere["SLURM_STEP_NODELIST"] = "node[";
  EXPECT_TRUE(has(init_error(nowhere), "node list 'node['"));
}

// A single task of Slurm may start several ranks with another launcher, which
// cannot find each other.
TEST(Init, AnotherLauncherInATaskOfSlurmIsSeen) {
  auto values = LaunchVariables::slurm(0, 1);
  values["FLUX_TASK_RANK"] = "0";
  values["FLUX_JOB_SIZE"] = "2";
  EXPECT_TRUE(has(init_error(values), "flux run has started several ranks"));
}

}  // namespace
}  // namespace sheaf::tensor
