#pragma once
// The transport over plain TCP: no MPI anywhere.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {

struct TcpOptions {
  // Whose addresses the peers are told; empty: what SHEAF_INTERFACE says, or
  // all. A peer tries those of a network that it is in first.
  std::string interface;
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(10);
};

// Gives this rank's string to all and returns everybody's, in the order of
// ranks. Every rank calls it once.
using AllGatherStrings =
    std::function<std::vector<std::string>(const std::string& mine)>;

// Every rank calls it at the same time. Ranks connect when they first have
// something to say to each other; a rank that cannot be reached, or is gone,
// is a TransportError that names it.
std::unique_ptr<Transport> make_tcp_transport(int rank, int size,
                                              const TcpOptions& options,
                                              const AllGatherStrings& exchange);

}  // namespace sheaf::comm
