#pragma once
// A thread that advances messages between hosts while this rank computes: a
// large message is not sent before its receiver has been polled. The thread
// sleeps while there are no messages.

#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "sheaf/comm/group/work.hpp"

namespace sheaf::halo {

class Pump {
 public:
  Pump() = default;
  ~Pump();
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;

  // Polls the works until they complete. Errors are reported by wait() on the
  // work. Thread-safe.
  void add(const void* owner, const std::vector<comm::Work>& works);
  // Drops an owner's works; after return none of them is polled. Thread-safe.
  void remove(const void* owner);

 private:
  struct OwnedWork {
    const void* owner;
    comm::Work work;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<OwnedWork> works_;
  bool is_closing_ = false;
  std::thread thread_;  // started by the first add()
};

}  // namespace sheaf::halo
