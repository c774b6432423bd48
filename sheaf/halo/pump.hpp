#pragma once
// A thread that lets messages between hosts move on while this rank computes:
// a large one does not leave before its receiver has been polled. It sleeps
// while there is none.

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

  // Polls the works until they end; whoever waits for one sees its error.
  void add(const void* owner, const std::vector<comm::Work>& works);
  // Lets go of an owner's works; on return none of them is polled any more.
  void remove(const void* owner);

 private:
  struct Entry {
    const void* owner;
    comm::Work work;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Entry> entries_;
  bool is_closing_ = false;
  std::thread thread_;  // from the first work on
};

}  // namespace sheaf::halo
