#include "sheaf/cli/launch/launcher.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>

#include "sheaf/base/error.hpp"
#include "sheaf/cli/launch/frame.hpp"
#include "sheaf/cli/launch/job.hpp"
#include "sheaf/cli/launch/process.hpp"
#include "sheaf/comm/transport/launch_environment.hpp"

namespace sheaf::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kDefaultGrace{3000};
// The wrapper's grace period is longer than the launcher's by this, so that the
// launcher usually stops the run; mpirun's reaction to a failed rank prints
// more.
constexpr milliseconds kWrapperReserve{2000};

milliseconds grace_from_environment() {
  const std::string text = variable("SHEAF_RUN_GRACE");
  if (text.empty()) return kDefaultGrace;
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  SHEAF_CHECK(*end == '\0' && seconds >= 0 && seconds <= 3600,
              "SHEAF_RUN_GRACE is '", text,
              "'; write seconds from 0 to 3600, such as 3");
  return milliseconds(static_cast<long long>(seconds * 1000));
}

std::vector<std::string> wrapper_words(const LaunchOptions& options,
                                       const LaunchPlan& plan) {
  const auto grace = plan.grace + kWrapperReserve;
  std::vector<std::string> words{
      options.executable.empty() ? this_executable() : options.executable,
      "rank-exec",
      "--token",
      plan.token,
      "--grace-ms",
      fmt::to_string(grace.count())};
  if (options.prefix) words.push_back("--relay");
  words.push_back("--");
  words.insert(words.end(), options.command.begin(), options.command.end());
  return words;
}

std::string command_text(const LaunchPlan& plan) {
  return text_of_environment(plan.environment) + shell_quote(plan.command);
}

// Throws UsageError under srun, where each task would start all ranks.
void check_started_once() {
  const auto task = comm::slurm_task();
  SHEAF_CHECK(
      !task || task->tasks == 1 || comm::is_meant_to_be_alone(),
      "srun has started ", task ? task->tasks : 0,
      " tasks, each of which would start all ranks; run this command once, "
      "without srun, in the batch script or in the shell of salloc, or set "
      "RANK=0 and WORLD_SIZE=1 to run each task on its own");
}

// The ranks of other hosts get the secret from the remote shell that starts
// them, and those of this host from a file.
void hide_secret(LaunchPlan& plan, MpiKind mpi) {
  constexpr const char* kSecret = "SHEAF_SECRET";
  const std::string entry = std::string(kSecret) + "=";
  std::string secret = variable(kSecret);
  for (const std::string& one : plan.environment)
    if (one.starts_with(entry)) secret = one.substr(entry.size());
  if (secret.empty()) return;
  plan.agent = std::make_unique<SecretAgent>(
      remote_shell(mpi, plan.request.agent), secret);
  plan.request.agent = plan.agent->program();
  plan.request.has_local_agent = true;
  std::erase_if(plan.environment,
                [&](const auto& one) { return one.starts_with(entry); });
  plan.request.exports = names_to_export(plan.environment);
  std::erase(plan.request.exports, kSecret);
  plan.request.exports.emplace_back("SHEAF_SECRET_FILE");
  plan.environment.emplace_back(kSecret);
  plan.environment.push_back("SHEAF_SECRET_FILE=" + plan.agent->secret_file());
}

// A batch system: it starts MPI's daemons, and sends them the environment.
bool is_batch_job() {
  return std::ranges::any_of(
      std::array{"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE"},
      [](const char* name) { return std::getenv(name); });
}

void check_batch_job(const LaunchOptions& options) {
  const bool has_file = !variable("SHEAF_SECRET_FILE").empty() &&
                        variable("SHEAF_SECRET").empty();
  SHEAF_CHECK(
      !options.encrypts || has_file,
      "--encrypt: the batch system would send the secret of the job to the "
      "other nodes in clear text; write a random text into a file that only "
      "you can read, in a folder that all nodes share, and set "
      "SHEAF_SECRET_FILE to its path");
}

}  // namespace

LaunchPlan plan_launch(const LaunchOptions& options, const MpiInstall& mpi) {
  SHEAF_CHECK(!options.command.empty(),
              "no program to run; put it last, as in sheaf run -n 2 -- "
              "./program");
  LaunchPlan plan;
  const RankPlacement place = place_ranks(options);
  plan.environment = rank_environment(options, place);
  plan.request = place.request;
  plan.request.is_root = ::geteuid() == 0;
  plan.request.agent =
      options.agent.empty() ? variable("SHEAF_MPIRUN_AGENT") : options.agent;
  plan.request.interface = options.interface;
  plan.request.exports = names_to_export(plan.environment);
  if (!plan.request.is_local && is_batch_job())
    check_batch_job(options);
  else if (!plan.request.is_local && !options.dry_run)
    hide_secret(plan, mpi.kind);
  plan.request.extra = options.mpi_args;
  if (plan.request.is_local) check_executable(options.command[0]);
  plan.token = new_token();
  plan.grace = grace_from_environment();
  plan.command = mpi_command(mpi, plan.request);
  const auto words = wrapper_words(options, plan);
  plan.command.insert(plan.command.end(), words.begin(), words.end());
  return plan;
}

int launch(const LaunchOptions& options) {
  check_started_once();
  const MpiInstall mpi = find_mpi();
  const LaunchPlan plan = plan_launch(options, mpi);
  if (options.dry_run) {
    std::cout << command_text(plan) << std::endl;
    return 0;
  }
  if (options.verbose)
    std::cerr << "sheaf run: " << command_text(plan) << std::endl;
  return run_job({.command = plan.command,
                  .environment = plan.environment,
                  .token = plan.token,
                  .ranks = plan.request.ranks,
                  .is_local = plan.request.is_local,
                  .grace = plan.grace,
                  .timeout = options.timeout,
                  .stop_time = options.stop_time,
                  .prefix = options.prefix,
                  .mpi = mpi.kind});
}

}  // namespace sheaf::cli
