#pragma once
// Ranks as threads of one process that talk by TCP over loopback.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sheaf/comm/group.hpp"
#include "sheaf/comm/tcp_transport.hpp"

namespace sheaf::test {

// Runs `body` as each of `ranks` ranks on a transport of its own, and rethrows
// the first error. The body may end its transport by resetting it.
void run_transports(
    int ranks,
    const std::function<void(std::unique_ptr<comm::Transport>&)>& body);

// The same with groups on top: rank r is on the host named hosts[r].
void run_tcp(const std::vector<std::string>& hosts,
             const std::function<void(const comm::Group&)>& body);

}  // namespace sheaf::test
