#pragma once
// The first exchange between ranks, before there are groups.

#include <chrono>
#include <cstddef>
#include <vector>

#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {

// Every rank gives `bytes` bytes; the result holds all of them in the order of
// ranks. Through rank 0. TimeoutError names the ranks that are missing.
std::vector<std::byte> bootstrap_all_gather(Transport& transport,
                                            const void* data, std::size_t bytes,
                                            std::chrono::milliseconds timeout);

}  // namespace sheaf::comm
