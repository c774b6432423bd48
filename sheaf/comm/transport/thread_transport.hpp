#pragma once
// Ranks as threads of one process: the transport for tests, and for a single
// process (one rank).

#include <memory>
#include <vector>

#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {

// Returns one transport per rank, connected by mailboxes in memory.
std::vector<std::unique_ptr<Transport>> make_thread_transports(int ranks);

}  // namespace sheaf::comm
