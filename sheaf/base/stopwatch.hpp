#pragma once
// Elapsed time on the steady clock.

#include <chrono>
#include <cstdint>

namespace sheaf {

// Nanoseconds of the steady clock, which all processes of a host share.
inline std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class Stopwatch {
 public:
  // Milliseconds since the last lap(), or since construction.
  double ms() const {
    return std::chrono::duration<double, std::milli>(Clock::now() - start_)
        .count();
  }
  // Same, and starts a new lap.
  double lap() {
    const double time = ms();
    start_ = Clock::now();
    return time;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace sheaf
