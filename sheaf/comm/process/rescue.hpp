#pragma once
// Interrupts a call of the transport's library that does not return after
// another rank has died or ended; while the ranks are connecting, and deaths
// are not known yet, after the timeout. All other waits detect this themselves.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "sheaf/comm/process/runtime.hpp"
#include "sheaf/comm/transport/breakable.hpp"

namespace sheaf::comm {

class Rescue {
 public:
  Rescue(Breakable& library, Runtime& runtime);
  ~Rescue();
  Rescue(const Rescue&) = delete;
  Rescue& operator=(const Rescue&) = delete;

 private:
  void run();
  void look();
  // "rank 2 has died", or "".
  std::string death() const;
  // Same, for a rank that has ended while the call waits for it.
  std::string missing_end() const;

  Breakable& library_;
  Runtime& runtime_;
  // Why the call that is in progress will not return, if this is known; "".
  std::string reason() const;

  std::uint64_t stuck_call_ = 0;
  int rounds_ = 0;  // periods in which it was stuck for a known reason
  std::chrono::steady_clock::time_point stuck_since_{};
  std::mutex mutex_;
  std::condition_variable stop_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace sheaf::comm
