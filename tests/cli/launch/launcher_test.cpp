#include "sheaf/cli/launch/launcher.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "tests/support/environment.hpp"

namespace sheaf::cli {
namespace {

const MpiInstall kInstalled{"mpirun", MpiKind::kOpenMpi, "4.1.4"};

// The value of a variable that the ranks get; empty if it is not set.
std::string value_in(const LaunchPlan& plan, const std::string& name) {
  for (const std::string& entry : plan.environment)
    if (entry.rfind(name + "=", 0) == 0) return entry.substr(name.size() + 1);
  return "";
}

class LaunchPlanTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"SLURM_JOB_ID", "SHEAF_OPTIONS", "SHEAF_RUN_GRACE",
                             "SHEAF_MPIRUN_AGENT"})
      ::unsetenv(name);
    options_.command = {"sh", "-c", "true"};
    options_.ranks = 12;
  }
  void TearDown() override { SetUp(); }
  LaunchPlan plan() const { return plan_launch(options_, kInstalled); }

  LaunchOptions options_;
};

// srun would call the launcher once per task; a batch script calls it once.
TEST_F(LaunchPlanTest, ATaskOfSeveralDoesNotLaunch) {
  options_.dry_run = true;
  const std::vector<std::pair<const char*, const char*>> step{
      {"SLURM_JOB_ID", "17"},
      {"SLURM_STEP_ID", "0"},
      {"SLURM_PROCID", "0"},
      {"SLURM_NTASKS", "4"}};
  for (const auto& [name, value] : step) ::setenv(name, value, 1);
  testing::internal::CaptureStdout();
  EXPECT_THROW(launch(options_), UsageError);
  ::setenv("WORLD_SIZE", "1", 1);
  EXPECT_THROW(launch(options_), UsageError);
  ::setenv("RANK", "0", 1);
  EXPECT_EQ(launch(options_), 0);
  ::unsetenv("RANK");
  ::unsetenv("WORLD_SIZE");
  ::unsetenv("SLURM_STEP_ID");
  EXPECT_EQ(launch(options_), 0);
  testing::internal::GetCapturedStdout();
  for (const auto& [name, value] : step) ::unsetenv(name);
}

TEST_F(LaunchPlanTest, TheProgramComesLast) {
  const auto words = plan().command;
  EXPECT_EQ(words.front(), "mpirun");
  const std::vector<std::string> last(words.end() - 4, words.end());
  EXPECT_EQ(last, (std::vector<std::string>{"--", "sh", "-c", "true"}));
  EXPECT_EQ(std::count(words.begin(), words.end(), "rank-exec"), 1);
  EXPECT_EQ(std::count(words.begin(), words.end(), "--relay"), 0);
  options_.prefix = true;
  const auto prefixed = plan().command;
  EXPECT_EQ(std::count(prefixed.begin(), prefixed.end(), "--relay"), 1);
}

TEST_F(LaunchPlanTest, TheTopologyJoinsTheOptions) {
  EXPECT_EQ(value_in(plan(), "SHEAF_OPTIONS"), "");
  options_.topology = "4x3";
  EXPECT_EQ(value_in(plan(), "SHEAF_OPTIONS"), "-mode b:4x3");
  const auto exports = plan().request.exports;
  EXPECT_EQ(std::count(exports.begin(), exports.end(), "SHEAF_OPTIONS"), 1);
  ::setenv("SHEAF_OPTIONS", "-mode p:12 -dbg_level 1", 1);
  EXPECT_EQ(value_in(plan(), "SHEAF_OPTIONS"), "-mode p:4x3 -dbg_level 1");
  const auto again = plan().request.exports;
  EXPECT_EQ(std::count(again.begin(), again.end(), "SHEAF_OPTIONS"), 1);
}

TEST_F(LaunchPlanTest, TheEnvironmentIsRead) {
  ::setenv("SHEAF_RUN_GRACE", "0.5", 1);
  ::setenv("SHEAF_MPIRUN_AGENT", "agent", 1);
  EXPECT_EQ(plan().grace, std::chrono::milliseconds(500));
  EXPECT_EQ(plan().request.agent, "agent");
  EXPECT_EQ(plan().request.is_root, ::geteuid() == 0);
  options_.agent = "other";
  EXPECT_EQ(plan().request.agent, "other");
  ::setenv("SHEAF_RUN_GRACE", "soon", 1);
  EXPECT_THROW(plan(), UsageError);
}

TEST_F(LaunchPlanTest, TheSecretIsNoVariableOfMpiOnOtherHosts) {
  const test::ScopedVariables variables({"SHEAF_SECRET", "SHEAF_SECRET_FILE"});
  for (const bool is_given : {false, true}) {
    if (is_given) ::setenv("SHEAF_SECRET", "0123456789abcdef", 1);
    options_.hosts = "a:12";
    const LaunchPlan plan = this->plan();
    EXPECT_EQ(value_in(plan, "SHEAF_SECRET"), "");
    const auto& exports = plan.request.exports;
    EXPECT_EQ(std::count(exports.begin(), exports.end(), "SHEAF_SECRET"), 0);
    EXPECT_EQ(std::count(exports.begin(), exports.end(), "SHEAF_SECRET_FILE"),
              1);
    const std::string file = value_in(plan, "SHEAF_SECRET_FILE");
    const std::string secret = read_file(file);
    EXPECT_EQ(secret.size(), is_given ? 17U : 65U);
    EXPECT_EQ(plan.request.agent, plan.agent->program());
  }
}

TEST_F(LaunchPlanTest, ABatchSystemWouldSendTheSecretInClearText) {
  const test::ScopedVariables variables({"SHEAF_SECRET", "SHEAF_SECRET_FILE",
                                         "SLURM_JOB_ID", "SLURM_JOB_NUM_NODES",
                                         "SLURM_JOB_NODELIST", "SLURM_NTASKS",
                                         "SLURM_TASKS_PER_NODE"});
  ::setenv("SLURM_JOB_ID", "17", 1);
  ::setenv("SLURM_JOB_NUM_NODES", "2", 1);
  ::setenv("SLURM_JOB_NODELIST", "a[1-2]", 1);
  ::setenv("SLURM_NTASKS", "12", 1);
  ::setenv("SLURM_TASKS_PER_NODE", "6(x2)", 1);
  options_.encrypts = true;
  EXPECT_THROW(plan(), UsageError);
  ::setenv("SHEAF_SECRET_FILE", "secret", 1);
  EXPECT_NO_THROW(plan());
}

TEST_F(LaunchPlanTest, OnlyLocalProgramsAreLookedFor) {
  options_.command = {"no-such-program"};
  EXPECT_THROW(plan(), UsageError);
  options_.hosts = "a:12";
  EXPECT_NO_THROW(plan());
}

}  // namespace
}  // namespace sheaf::cli
