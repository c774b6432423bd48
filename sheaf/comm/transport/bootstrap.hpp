#pragma once
// The first exchange between ranks, before any group exists.

#include <chrono>
#include <cstddef>
#include <vector>

#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {

// Gathers `bytes` bytes from every rank on all ranks, in rank order, through
// rank 0. Every rank must call it. Throws TimeoutError, which names the missing
// ranks.
std::vector<std::byte> bootstrap_all_gather(Transport& transport,
                                            const void* data, std::size_t bytes,
                                            std::chrono::milliseconds timeout);

}  // namespace sheaf::comm
