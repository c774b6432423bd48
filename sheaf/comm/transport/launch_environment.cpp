#include "sheaf/comm/transport/launch_environment.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {
namespace {

// The value of an environment variable; 0 if it is not set or empty. Throws
// UsageError for any other text: a number that is not understood must not mean
// that this process is alone.
int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text || !*text) return 0;
  const auto number = parse_count(text);
  SHEAF_CHECK(number, variable, "='", printable(text, 40),
              "' is not a number of ranks, as the launcher would set; correct "
              "or unset it");
  return *number;
}

[[noreturn]] void refuse_lone_mpi(const std::string& reason) {
  throw UsageError(concat(
      reason,
      ", but MPI_Init found one: the program's MPI does not support this "
      "launcher. Start the program with sheaf run, or with the mpirun of the "
      "MPI that Sheaf was built with; under srun without MPI support "
      "(srun --mpi=none), sheaf::tensor::init needs no MPI"));
}

void check_alone_in_mpi() {
  for (const char* size :
       {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    if (!std::getenv(size)) continue;
    if (number_in(size) > 1)
      refuse_lone_mpi(concat("the launcher has started ", number_in(size),
                             " ranks (", size, ")"));
    return;  // the variables of the innermost launcher decide
  }
  if (number_in("PMIX_RANK") > 0)
    refuse_lone_mpi(concat("the launcher has started this process as rank ",
                           number_in("PMIX_RANK"), " (PMIX_RANK)"));
  if (const auto task = slurm_task(); task && task->tasks > 1)
    refuse_lone_mpi(concat("srun has started ", task->tasks, " tasks (",
                           task->tasks_from, ")"));
}

// Launchers that Sheaf detects but does not support.
struct Launcher {
  const char* name;
  const char* rank;
  const char* size;  // number of ranks, in total or on this host
};
constexpr Launcher kLaunchers[]{
    {"flux run", "FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
    {"jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
    {"PALS", "PALS_RANKID", "PALS_LOCAL_SIZE"}};

void check_other_launchers() {
  for (const auto& [name, rank, size] : kLaunchers) {
    if (!std::getenv(rank)) continue;
    SHEAF_CHECK(number_in(rank) == 0 && number_in(size) <= 1, name,
                " has started several ranks (", rank, "=", number_in(rank),
                ", ", size, "=", number_in(size),
                "), but each would run on its own. Start the program with "
                "sheaf run or "
                "mpirun; or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT "
                "and call sheaf::tensor::init; or set RANK=0 and WORLD_SIZE=1 "
                "if each rank should run on its own");
  }
}

void check_alone_without_mpi() {
  if (is_meant_to_be_alone()) return;
  check_other_launchers();
  const char* const rank = std::getenv("RANK");
  const int size = number_in("WORLD_SIZE");
  SHEAF_CHECK(size <= 1, "WORLD_SIZE=", size,
              " specifies more than one rank, but ",
              rank ? "this program does not read torchrun's variables; "
                     "call sheaf::tensor::init, or start it with sheaf run or "
                     "mpirun"
                   : "RANK is not set; set it to this process's rank, or "
                     "unset WORLD_SIZE");
  const auto task = slurm_task();
  SHEAF_CHECK(
      !task || task->tasks == 1, "srun has started ", task ? task->tasks : 0,
      " tasks (", task ? task->tasks_from : "", "), of which this is number ",
      task ? task->rank : 0,
      ", but each would run on its own. Call sheaf::tensor::init, which needs "
      "no MPI; or start the program once in the batch script with sheaf run or "
      "mpirun; or set RANK=0 and WORLD_SIZE=1 if each task should run on its "
      "own");
  SHEAF_CHECK(!rank || std::getenv("WORLD_SIZE"), "RANK=", rank ? rank : "",
              " is set, but WORLD_SIZE is not; set it to the number of ranks, "
              "or unset RANK");
}

// Higher step numbers are reserved for batch scripts, interactive shells etc.
constexpr std::int64_t kMostSteps = 0xfffffff0;
constexpr std::uint16_t kFirstPort = 10000;
constexpr std::int64_t kPorts = 20000;

std::string text_in(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

std::optional<std::int64_t> digits(std::string_view text) {
  std::int64_t value = 0;
  const auto* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || at != end || value < 0)
    return std::nullopt;
  return value;
}

std::int64_t slurm_number(const char* name) {
  const std::string text = text_in(name);
  const auto value = digits(text);
  SHEAF_CHECK(value, name, "='", printable(text, 40),
              "' is not a non-negative number, as ",
              "Slurm would set; start the program with srun, or set RANK, "
              "WORLD_SIZE, MASTER_ADDR and MASTER_PORT yourself");
  return *value;
}

int slurm_count(const char* name) {
  const std::int64_t number = slurm_number(name);
  SHEAF_CHECK(std::in_range<int>(number), name, "=", number,
              " is too large; unset Slurm's variables");
  return static_cast<int>(number);
}

// The number of the job step, if it is a normal one started by srun.
std::optional<std::int64_t> step_of_job() {
  for (const char* name : {"SLURM_STEP_ID", "SLURM_STEPID"})
    if (const auto step = digits(text_in(name)))
      return *step < kMostSteps ? step : std::nullopt;
  return std::nullopt;
}

// srun --pty starts a shell as task 0; its child processes are not tasks.
bool is_in_terminal_shell(int rank) {
  const bool has_terminal = std::getenv("SLURM_PTY_PORT") != nullptr;
  const bool is_task = text_in("SLURM_TASK_PID") == concat(::getpid());
  return has_terminal && rank == 0 && !is_task;
}

const char* first_set(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (!text_in(name).empty()) return name;
  return *names.begin();
}

}  // namespace

bool is_under_mpi_launcher() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE",
                               "PMI_RANK", "MV2_COMM_WORLD_SIZE"})
    if (std::getenv(variable)) return true;
  return false;
}

std::optional<MpiTask> mpi_task() {
  constexpr std::pair<const char*, const char*> kVariables[]{
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMI_RANK", "PMI_SIZE"}};
  for (const auto& [rank, tasks] : kVariables) {
    const auto number = parse_count(text_in(rank));
    const auto count = parse_count(text_in(tasks));
    if (number && count && *number < *count)
      return MpiTask{*number, *count, rank, tasks};
  }
  return std::nullopt;
}

bool is_meant_to_be_alone() {
  const auto is = [](const char* variable, std::string_view wanted) {
    const char* value = std::getenv(variable);
    return value && value == wanted;
  };
  return is("RANK", "0") && is("WORLD_SIZE", "1");
}

void check_is_alone(bool is_mpi) {
  is_mpi ? check_alone_in_mpi() : check_alone_without_mpi();
}

std::optional<SlurmTask> slurm_task() {
  const auto step = step_of_job();
  if (!step || !std::getenv("SLURM_PROCID")) return std::nullopt;
  SlurmTask task;
  task.step = *step;
  task.rank = slurm_count("SLURM_PROCID");
  if (is_in_terminal_shell(task.rank)) return std::nullopt;
  task.tasks_from = first_set({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  task.tasks = slurm_count(task.tasks_from.c_str());
  SHEAF_CHECK(task.rank < task.tasks, "SLURM_PROCID=", task.rank, " but ",
              task.tasks_from, "=", task.tasks,
              "; start the program with srun, or unset Slurm's variables");
  task.job = slurm_number(first_set({"SLURM_JOB_ID", "SLURM_JOBID"}));
  task.nodes_from = first_set(
      {"SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST"});
  task.nodes = text_in(task.nodes_from.c_str());
  task.is_heterogeneous = !text_in("SLURM_HET_SIZE").empty();
  return task;
}

std::uint16_t port_of(const SlurmTask& task) {
  constexpr std::int64_t kStepsApart = 101;
  return static_cast<std::uint16_t>(
      kFirstPort +
      (task.job % kPorts * kStepsApart + task.step % kPorts) % kPorts);
}

}  // namespace sheaf::comm
