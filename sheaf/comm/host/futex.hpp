#pragma once
// Sleeping and waking on a counter in shared memory.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sheaf::comm {

// A counter with one writer. Values wrap around; has_reached() compares by
// signed distance.
struct Counter {
  std::atomic<std::uint32_t> value{0};

  bool has_reached(std::uint32_t target) const {
    return static_cast<std::int32_t>(value.load(std::memory_order_acquire) -
                                     target) >= 0;
  }
};

// Sets the counter and wakes the threads that sleep on it. `sleepers` is their
// number.
void publish(Counter& counter, std::atomic<std::uint32_t>& sleepers,
             std::uint32_t value) noexcept;

// Sleeps until the counter reaches the target or about `slice` has passed.
// Returns whether the target was reached.
bool sleep_until(Counter& counter, std::atomic<std::uint32_t>& sleepers,
                 std::uint32_t target,
                 std::chrono::milliseconds slice) noexcept;

inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace sheaf::comm
