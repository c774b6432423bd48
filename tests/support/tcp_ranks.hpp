#pragma once
// Ranks as threads of one process that talk by TCP over loopback.

#include <functional>
#include <memory>

#include "sheaf/comm/transport/tcp_transport.hpp"

namespace sheaf::test {

// Runs `body` as each of `ranks` ranks on a transport of its own, and rethrows
// the first error. The body may end its transport by resetting it.
void run_transports(
    int ranks,
    const std::function<void(std::unique_ptr<comm::Transport>&)>& body);

}  // namespace sheaf::test
