#pragma once
// Gets a rank out of a call of the transport's library that does not return
// after another rank has died or ended. Everything else that waits looks after
// that itself.

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
  // "rank 2 has died", or nothing.
  std::string death() const;
  // The same of a rank that has ended and that the call waits for.
  std::string missing_end() const;

  Breakable& library_;
  Runtime& runtime_;
  std::uint64_t stuck_call_ = 0;
  int rounds_ = 0;  // that it has been stuck while a reason was known
  std::mutex mutex_;
  std::condition_variable stop_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace sheaf::comm
