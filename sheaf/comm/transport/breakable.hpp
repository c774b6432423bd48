#pragma once
// Interrupts calls of a C library that may never return: MPI can stay in its
// event loop forever after a peer has died. Another thread sends a signal to
// the caller, and the signal handler jumps back to before the call. The library
// is then in an undefined state and is not called again.
//
// The jump never leaves the C library or the memory allocator, whose locks
// would stay held: while the caller is there (except where it sleeps), it goes
// on, and the signal is sent again.

#include <pthread.h>
#include <setjmp.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace sheaf::comm {

class Breakable {
 public:
  // Runs `fn`, one call of the library. Since it may be left by a jump, it must
  // not hold objects with destructors. One thread at a time. Returns false if
  // this or an earlier call was interrupted; reason() gives the cause.
  template <class Fn>
  bool run(Fn fn) {
    return run([](void* context) { (*static_cast<Fn*>(context))(); }, &fn);
  }
  bool is_broken() const { return is_broken_.load(std::memory_order_acquire); }
  const std::string& reason() const { return reason_; }

  // For the watching thread: the number of the call in progress, 0 if there is
  // none.
  std::uint64_t call() const {
    const std::uint64_t number = calls_.load(std::memory_order_acquire);
    return number % 2 ? number : 0;
  }
  // Interrupts the call with this number, if it is still in progress. Returns
  // when it has ended, or after some tries: then call it again.
  void interrupt(std::uint64_t call, const std::string& reason);

 private:
  bool run(void (*fn)(void*), void* context);

  std::atomic<std::uint64_t> calls_{0};  // odd while a call is in progress
  std::atomic<bool> is_broken_{false};
  std::atomic<pthread_t> caller_{};
  std::string reason_;  // set before is_broken_
  sigjmp_buf before_{};
};

}  // namespace sheaf::comm
