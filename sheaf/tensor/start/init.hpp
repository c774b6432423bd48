#pragma once
// How a program of many processes starts; docs/start.md has the manual.

#include <chrono>
#include <string>

#include "sheaf/comm/group/world.hpp"

namespace sheaf::tensor {

struct ProcessGroupOptions {
  // "mpi"; "gloo": TCP, without MPI; empty: mpi under an MPI launcher, else
  // gloo; "nccl": as empty, and NCCL for CUDA tensors.
  std::string backend{};
  // env://, tcp://host:port?rank=&world_size=, file:///path; empty: env://.
  std::string init_method{};
  int world_size = -1;  // unless the method says it
  int rank = -1;
  // Of the start and of every operation; zero: what SHEAF_OPTIONS says, or
  // five minutes.
  std::chrono::milliseconds timeout{0};
  std::string group_name{};  // tells apart starts that use the same place
};

// Joins the other ranks; every rank calls it. UsageError names the variable or
// the part of the URL that is wrong and what to set; TimeoutError the ranks
// that did not come.
comm::World init_process_group(const ProcessGroupOptions& options);

// Under mpirun, or srun with PMI, through MPI; with torchrun's variables RANK
// and WORLD_SIZE, or as a task of srun, as env:// says; otherwise as one
// process alone. UsageError when a launcher has started more than that one.
comm::World init(int& argc, char**& argv);

}  // namespace sheaf::tensor
