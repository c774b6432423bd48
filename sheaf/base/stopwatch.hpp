#pragma once
// How long something has taken.

#include <chrono>

namespace sheaf {

class Stopwatch {
 public:
  // Milliseconds since the last lap, or since it was made.
  double ms() const {
    return std::chrono::duration<double, std::milli>(Clock::now() - start_)
        .count();
  }
  // The same, and a new lap begins.
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
