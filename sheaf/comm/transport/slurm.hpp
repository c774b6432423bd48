#pragma once
// What Slurm's variables say to a process that srun has started.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf::comm {

// A process of a job step.
struct SlurmTask {
  int rank = 0;
  int tasks = 1;
  std::string tasks_from{};  // the variable with that number
  std::int64_t job = 0;
  std::int64_t step = 0;
  std::string nodes{};       // such as "node[01-03,7]"; task 0 is on the first
  std::string nodes_from{};  // the variable with that list
  // Of a job of several components, each with a node list of its own.
  bool is_heterogeneous = false;
};

// The task that this process is, or nothing outside of a job step: Slurm also
// sets the job's number of tasks in batch scripts and in shells of salloc,
// which it starts once. UsageError when variables of a step are broken.
std::optional<SlurmTask> slurm_task();

// A port from 10000 to 29999, below those that the kernel gives away: the same
// on all tasks of a step, and another for steps that run at the same time.
std::uint16_t port_of(const SlurmTask& task);

// The hosts of a list such as "a1,node[01-03,7],r[0-1]n[2-3]-ib", in order.
// UsageError says what is wrong with a list.
std::vector<std::string> expand_node_list(std::string_view list);

}  // namespace sheaf::comm
