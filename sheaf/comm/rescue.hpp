#pragma once
// Gets a rank out of a call of the transport's library that does not return
// after another rank has died. Everything else that waits looks after deaths
// itself.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "sheaf/comm/breakable.hpp"
#include "sheaf/comm/host_memory.hpp"
#include "sheaf/comm/layout.hpp"

namespace sheaf::comm {

class Rescue {
 public:
  Rescue(Breakable& library, HostMemory& memory, const Layout& world);
  ~Rescue();
  Rescue(const Rescue&) = delete;
  Rescue& operator=(const Rescue&) = delete;

 private:
  void run();
  void look();
  // "rank 2 has died", or nothing.
  std::string death() const;

  Breakable& library_;
  HostMemory& memory_;
  const Layout& world_;
  std::uint64_t stuck_call_ = 0;
  int rounds_ = 0;  // that it has been stuck while a death was known
  std::mutex mutex_;
  std::condition_variable stop_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace sheaf::comm
