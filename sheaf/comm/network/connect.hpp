#pragma once
// Connects to another rank.

#include <string>
#include <vector>

#include "sheaf/comm/network/address.hpp"
#include "sheaf/comm/network/channel.hpp"
#include "sheaf/comm/network/handshake.hpp"

namespace sheaf::comm {

struct ConnectPlan {
  std::vector<Endpoint> endpoints;  // in the order to try them
  Party me;
  int peer = 0;  // rank to connect to
  Deadline deadline;
};

// Result of an attempt to connect.
struct Connection {
  Channel channel;  // empty if no endpoint answered in time as the peer
  // The error of each endpoint.
  std::string why{};
  // Whether another attempt may help: nothing answered. Otherwise a program
  // answered that is not the peer.
  bool may_retry = true;
};

// Tries the endpoints, each at first with a short timeout, to skip unreachable
// ones quickly, and authenticates both sides.
Connection connect_to(const ConnectPlan& plan);

// The endpoints of the same port at several addresses.
std::vector<Endpoint> endpoints_of(const std::vector<Address>& addresses,
                                   std::uint16_t port);

}  // namespace sheaf::comm
