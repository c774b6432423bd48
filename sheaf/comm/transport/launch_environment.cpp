#include "sheaf/comm/transport/launch_environment.hpp"

#include <cstdlib>
#include <string>
#include <string_view>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/transport/slurm.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {
namespace {

// The value of an environment variable; 0 if it is not set or not a number.
int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : 0;
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

}  // namespace

bool is_under_mpi_launcher() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE",
                               "PMI_RANK", "MV2_COMM_WORLD_SIZE"})
    if (std::getenv(variable)) return true;
  return false;
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

}  // namespace sheaf::comm
