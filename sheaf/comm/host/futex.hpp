#pragma once
// Waiting for a counter in shared memory: spin briefly, then sleep.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sheaf::comm {

// A counter with one writer. Values wrap around; "reached" compares by the
// signed distance.
struct Counter {
  std::atomic<std::uint32_t> value{0};

  bool has_reached(std::uint32_t target) const {
    return static_cast<std::int32_t>(value.load(std::memory_order_acquire) -
                                     target) >= 0;
  }
};

// Sets the counter and wakes those who sleep on it. `sleepers` counts them.
void publish(Counter& counter, std::atomic<std::uint32_t>& sleepers,
             std::uint32_t value) noexcept;

// Sleeps until the counter reaches the target or about `slice` has passed.
// Returns whether it was reached.
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
