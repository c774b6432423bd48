#pragma once
// The transport over plain TCP, without MPI.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "sheaf/comm/network/meeting.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {

struct TcpOptions {
  // Network interface whose addresses are sent to the peers. Empty: the value
  // of SHEAF_INTERFACE or, if that is not set, `address`. A peer first tries
  // the addresses in its own networks.
  std::string interface;
  // Used if no interface is set: listens on this address only. Empty: on all.
  std::optional<Address> address;
  // After which a host that does not react at all is an error. A host that
  // accepts a connection, but whose process does not respond because it is
  // stopped or busy, has no limit but those of the operations that wait for it.
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(10);
  JobIdentity identity{};
  bool encrypts = false;
};

// Sends this rank's card to all ranks and returns the cards of all ranks and
// the key of the session. Every rank calls it once.
using Meet = std::function<MeetingResult(const std::string& mine)>;

// Every rank must call it at the same time. Two ranks connect when the first
// message between them is sent or received. If a rank cannot be reached, or is
// gone, the request fails with TransportError, which names it.
std::unique_ptr<Transport> make_tcp_transport(int rank, int size,
                                              const TcpOptions& options,
                                              const Meet& meet);

}  // namespace sheaf::comm
