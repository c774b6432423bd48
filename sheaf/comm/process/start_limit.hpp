#pragma once
// MPI's own start does not return if a host is lost or cut off meanwhile, and
// nothing can interrupt it. This bounds the time that it may take.

#include <chrono>
#include <memory>
#include <thread>

#include "sheaf/comm/transport/transport.hpp"
#include "sheaf/topo/options.hpp"

namespace sheaf::comm {

// Ends the process with the exit code of a TimeoutError, after a message on
// standard error and a note for the launcher, unless it is destroyed in time.
class StartLimit {
 public:
  explicit StartLimit(std::chrono::milliseconds limit);

 private:
  std::jthread thread_;
};

// make_mpi_transport() within the timeout of the options.
std::unique_ptr<Transport> start_mpi(const topo::Options& options,
                                     int* argc = nullptr,
                                     char*** argv = nullptr);

}  // namespace sheaf::comm
