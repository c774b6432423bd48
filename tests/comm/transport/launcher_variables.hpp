#pragma once
// Sets the variables of launchers by hand; all others are unset.

#include <gtest/gtest.h>

#include "tests/support/environment.hpp"

namespace sheaf::comm {

class LauncherVariables : public testing::Test {
 protected:
  using Values = test::ScopedVariables::Values;

  void set(const Values& values) const { variables_.set(values); }

  static Values task(int rank, int tasks) {
    return {{"SLURM_JOB_ID", "17"},
            {"SLURM_STEP_ID", "3"},
            {"SLURM_PROCID", std::to_string(rank)},
            {"SLURM_NTASKS", std::to_string(tasks)},
            {"SLURM_STEP_NUM_TASKS", std::to_string(tasks)},
            {"SLURM_JOB_NODELIST", "n[1-4]"},
            {"SLURM_STEP_NODELIST", "n[2-3]"}};
  }
  static Values with(Values values, const Values& more) {
    for (const auto& [name, value] : more) values[name] = value;
    return values;
  }

 private:
  test::ScopedVariables variables_{{"SLURM_STEP_ID",
                                    "SLURM_STEPID",
                                    "SLURM_PROCID",
                                    "SLURM_NTASKS",
                                    "SLURM_STEP_NUM_TASKS",
                                    "SLURM_JOB_ID",
                                    "SLURM_JOBID",
                                    "SLURM_STEP_NODELIST",
                                    "SLURM_NODELIST",
                                    "SLURM_JOB_NODELIST",
                                    "SLURM_PTY_PORT",
                                    "SLURM_TASK_PID",
                                    "SLURM_HET_SIZE",
                                    "SLURM_LOCALID",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "PMI_SIZE",
                                    "PMI_RANK",
                                    "PMIX_RANK",
                                    "MV2_COMM_WORLD_SIZE",
                                    "FLUX_TASK_RANK",
                                    "FLUX_JOB_SIZE",
                                    "JSM_NAMESPACE_RANK",
                                    "JSM_NAMESPACE_SIZE",
                                    "PALS_RANKID",
                                    "PALS_LOCAL_SIZE",
                                    "RANK",
                                    "WORLD_SIZE"}};
};

}  // namespace sheaf::comm
