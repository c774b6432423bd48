#include "sheaf/comm/process/start_limit.hpp"

#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>

#include "sheaf/base/error.hpp"
#include "sheaf/base/failure_note.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/comm/process/runtime.hpp"
#include "sheaf/comm/transport/launch_environment.hpp"

namespace sheaf::comm {
namespace {

[[noreturn]] void end_process(std::chrono::milliseconds limit) {
  const auto task = mpi_task();
  const TimeoutError error(
      concat(task ? concat("rank ", task->rank, ": ") : "",
             "MPI has not connected the ranks within ", format_duration(limit),
             "; a rank or a host has failed or cannot be reached: see the "
             "output of the other ranks, or raise the timeout (-timeout in "
             "SHEAF_OPTIONS)"));
  leave_failure_note(FailureCause::kOther, error.what());
  std::fprintf(stderr, "sheaf: %s\n", error.what());
  ::_exit(exit_code(error));
}

}  // namespace

StartLimit::StartLimit(std::chrono::milliseconds limit)
    : thread_([limit](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any never;
        std::unique_lock lock(mutex);
        never.wait_for(lock, stop, limit, [] { return false; });
        if (!stop.stop_requested()) end_process(limit);
      }) {}

std::unique_ptr<Transport> start_mpi(const topo::Options& options, int* argc,
                                     char*** argv) {
  const StartLimit limit(options.timeout_ms
                             ? std::chrono::milliseconds(*options.timeout_ms)
                             : kDefaultTimeout);
  return make_mpi_transport(argc, argv);
}

}  // namespace sheaf::comm
