#include "sheaf/comm/host/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace sheaf::comm {
namespace {

// FUTEX_PRIVATE_FLAG is not used, since the word is shared between processes.
long futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), operation,
                 value, timeout, nullptr, 0);
}

}  // namespace

void publish(Counter& counter, std::atomic<std::uint32_t>& sleepers,
             std::uint32_t value) noexcept {
  // Both sides first store their own word and then load the other's. Sequential
  // consistency guarantees that at least one of them sees the other's store.
  counter.value.store(value, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0)
    futex(&counter.value, FUTEX_WAKE, INT_MAX, nullptr);
}

bool sleep_until(Counter& counter, std::atomic<std::uint32_t>& sleepers,
                 std::uint32_t target,
                 std::chrono::milliseconds slice) noexcept {
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t seen = counter.value.load(std::memory_order_seq_cst);
  if (static_cast<std::int32_t>(seen - target) < 0) {
    const timespec timeout{slice.count() / 1000,
                           (slice.count() % 1000) * 1'000'000};
    futex(&counter.value, FUTEX_WAIT, seen, &timeout);
  }
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
  return counter.has_reached(target);
}

}  // namespace sheaf::comm
