#pragma once
// Calls of a C library that may never return, and the way out of them: MPI
// was seen to stay in its own event loop for ever after a peer had died.
// Another thread interrupts the call with a signal, whose handler jumps back
// to before it. The library is in no state to be called again after that, and
// it is not.

#include <pthread.h>
#include <setjmp.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace sheaf::comm {

class Breakable {
 public:
  // Runs fn, which holds nothing that would have to be destroyed: one call of
  // the library. One thread at a time. False when the call was interrupted,
  // then or before; reason() says why.
  template <class Fn>
  bool run(Fn fn) {
    return run([](void* context) { (*static_cast<Fn*>(context))(); }, &fn);
  }
  bool is_broken() const { return is_broken_.load(std::memory_order_acquire); }
  const std::string& reason() const { return reason_; }

  // For the thread that watches: a number of the call under way, 0 when there
  // is none.
  std::uint64_t call() const {
    const std::uint64_t number = calls_.load(std::memory_order_acquire);
    return number % 2 ? number : 0;
  }
  // Interrupts the call that has this number, if it is still under way.
  void interrupt(std::uint64_t call, const std::string& reason);

 private:
  bool run(void (*fn)(void*), void* context);

  std::atomic<std::uint64_t> calls_{0};  // odd while one is under way
  std::atomic<bool> is_broken_{false};
  std::atomic<pthread_t> caller_{};
  std::string reason_;  // set before is_broken_
  sigjmp_buf before_{};
};

}  // namespace sheaf::comm
