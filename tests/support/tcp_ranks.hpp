#pragma once
// Ranks as threads of one process that communicate by TCP over loopback.

#include <functional>
#include <memory>

#include "sheaf/comm/transport/tcp_transport.hpp"

namespace sheaf::test {

// Runs `body` on each of `ranks` ranks with a separate transport, and rethrows
// the first error. The body may end its transport by resetting it.
void run_transports(
    int ranks,
    const std::function<void(std::unique_ptr<comm::Transport>&)>& body,
    bool encrypts = false);

}  // namespace sheaf::test
