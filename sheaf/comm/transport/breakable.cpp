#include "sheaf/comm/transport/breakable.hpp"

#include <signal.h>

#include <chrono>
#include <thread>

#include "sheaf/comm/transport/code_ranges.hpp"

namespace sheaf::comm {
namespace {

// This signal is ignored by default. Libraries that do not use out-of-band data
// ignore it, too.
constexpr int kSignal = SIGURG;

constexpr int kTries = 50;
constexpr auto kPause = std::chrono::milliseconds(1);

// Jump target of this thread when it is interrupted; null outside of calls.
thread_local sigjmp_buf* way_out = nullptr;

void leave_call(int /*signal*/, siginfo_t* /*info*/, void* context) {
  if (!way_out || !may_leave(*static_cast<const ucontext_t*>(context))) return;
  sigjmp_buf* const target = way_out;
  way_out = nullptr;
  // The jump does not restore the signal mask.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, kSignal);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  siglongjmp(*target, 1);
}

// Called only when needed, because the program may use the signal itself.
void install_handler() {
  find_code_ranges();
  struct sigaction action {};
  action.sa_sigaction = leave_call;
  // Blocked in the handler: a second signal would find the thread there, and
  // not in the function that the first one has interrupted.
  action.sa_flags = SA_SIGINFO;
  sigaction(kSignal, &action, nullptr);
}

}  // namespace

bool Breakable::run(void (*fn)(void*), void* context) {
  if (is_broken()) return false;
  const std::uint64_t before = calls_.load(std::memory_order_relaxed);
  caller_.store(pthread_self(), std::memory_order_relaxed);
  if (sigsetjmp(before_, /*savemask=*/0) == 0) {
    way_out = &before_;
    calls_.store(before + 1, std::memory_order_release);
    fn(context);
    way_out = nullptr;
  }
  calls_.store(before + 2, std::memory_order_release);
  return !is_broken();
}

void Breakable::interrupt(std::uint64_t call, const std::string& reason) {
  if (call == 0 || this->call() != call) return;
  if (!is_broken()) {
    reason_ = reason;
    is_broken_.store(true, std::memory_order_release);
    install_handler();
  }
  for (int i = 0; i < kTries && this->call() == call; ++i) {
    pthread_kill(caller_.load(std::memory_order_relaxed), kSignal);
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace sheaf::comm
