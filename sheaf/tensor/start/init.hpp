#pragma once
// Starts a multi-process program and returns its World. See
// docs/howto/start.md. The World owns the connections: keep it until all
// communication is over, usually in main(). Both functions also report uncaught
// exceptions from then on, as comm/group/world.hpp describes.

#include <chrono>
#include <string>

#include "sheaf/comm/group/world.hpp"

namespace sheaf::tensor {

struct ProcessGroupOptions {
  // "mpi"; "gloo" (TCP, without MPI); "nccl" (as empty, plus NCCL for CUDA
  // tensors). Empty: mpi under an MPI launcher if init_method is empty, else
  // gloo.
  std::string backend{};
  // env://, tcp://host:port?rank=&world_size=, file:///path; empty: env://.
  std::string init_method{};
  // Required if init_method does not define them; -1: not set. A value that
  // contradicts init_method is a UsageError.
  int world_size = -1;
  int rank = -1;
  // Timeout of the start and of every operation. Zero: the timeout in
  // SHEAF_OPTIONS, or five minutes.
  std::chrono::milliseconds timeout{0};
  // Distinguishes programs that use the same address or file.
  std::string group_name{};
};

// Connects this process to the other ranks; every rank must call it. Throws
// UsageError, which names the wrong variable or URL part and the value to set,
// and TimeoutError, which names the ranks that did not join in time.
comm::World init_process_group(const ProcessGroupOptions& options);

// Chooses the start method from the environment: MPI under mpirun or srun with
// PMI; env:// if torchrun's RANK and WORLD_SIZE are set or the process is a
// Slurm task; otherwise a world of one process. Throws UsageError if a launcher
// started several processes that cannot find each other.
comm::World init(int& argc, char**& argv);

}  // namespace sheaf::tensor
