#pragma once
// The transport over plain TCP, without MPI.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {

struct TcpOptions {
  // Network interface whose addresses are sent to the peers. Empty: the value
  // of SHEAF_INTERFACE or, if that is not set, all interfaces. A peer first
  // tries the addresses in its own networks.
  std::string interface;
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(10);
};

// Sends this rank's string to all ranks and returns the strings of all ranks,
// in rank order. Every rank calls it once.
using AllGatherStrings =
    std::function<std::vector<std::string>(const std::string& mine)>;

// Every rank must call it at the same time. Two ranks connect when the first
// message between them is sent or received. If a rank cannot be reached, or is
// gone, the operation throws TransportError, which names it.
std::unique_ptr<Transport> make_tcp_transport(int rank, int size,
                                              const TcpOptions& options,
                                              const AllGatherStrings& exchange);

}  // namespace sheaf::comm
