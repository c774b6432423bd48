#pragma once
// Interrupts a call of a library, as a rescue does.

#include <cstdint>
#include <thread>

#include "sheaf/comm/transport/breakable.hpp"

namespace sheaf::test {

// Interrupts the call in progress.
inline std::thread breaker_of(comm::Breakable& library, const char* reason) {
  return std::thread([&library, reason] {
    std::uint64_t call = 0;
    while (call == 0) call = library.call();
    while (library.call() == call) library.interrupt(call, reason);
  });
}

}  // namespace sheaf::test
