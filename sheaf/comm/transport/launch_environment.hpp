#pragma once
// Reads the environment variables of the launcher that started this process:
// whether it started other processes, and the variables that Slurm sets for
// processes started by srun. See also is_under_mpi_launcher() in transport.hpp.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf::comm {

// To be called by a rank whose world has one rank. Throws UsageError if the MPI
// launcher (`is_mpi`), or else torchrun, Slurm, Flux, jsrun or PALS, has
// started more than one task: each would do the whole computation and overwrite
// the files of the others.
void check_is_alone(bool is_mpi);

// Whether both RANK=0 and WORLD_SIZE=1 are set: the user wants each task of a
// launcher to run on its own.
bool is_meant_to_be_alone();

// A process that an MPI launcher has started.
struct MpiTask {
  int rank = 0;
  int tasks = 1;
  std::string rank_from{};  // the variables that they were read from
  std::string tasks_from{};
};

// The MPI task of this process, or nullopt if the launcher's variables do not
// contain rank and number of tasks.
std::optional<MpiTask> mpi_task();

// A process of a job step.
struct SlurmTask {
  int rank = 0;
  int tasks = 1;
  std::string tasks_from{};  // the variable that `tasks` was read from
  std::int64_t job = 0;
  std::int64_t step = 0;
  std::string nodes{};       // such as "node[01-03,7]"; task 0 is on the first
  std::string nodes_from{};  // the variable that `nodes` was read from
  // The job has several components, each with its own node list.
  bool is_heterogeneous = false;
};

// The Slurm task of this process, or nullopt outside of a job step: Slurm also
// sets the number of tasks in batch scripts and salloc shells, of which only
// one runs. Throws UsageError if the variables of a step are invalid.
std::optional<SlurmTask> slurm_task();

// A port from 10000 to 29999, below the kernel's ephemeral ports: the same on
// all tasks of a step, and different for steps that run at the same time.
std::uint16_t port_of(const SlurmTask& task);

// The hosts of a list such as "a1,node[01-03,7],r[0-1]n[2-3]-ib", in order.
// Throws UsageError, which describes the fault, if the list is invalid.
std::vector<std::string> expand_node_list(std::string_view list);

}  // namespace sheaf::comm
