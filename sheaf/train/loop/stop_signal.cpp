#include "sheaf/train/loop/stop_signal.hpp"

#include <signal.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

namespace sheaf::train {
namespace {

constexpr std::array kSignals{SIGTERM, SIGINT, SIGUSR1};

std::atomic<int> first_signal = 0;
// Required in the handler.
static_assert(std::atomic<int>::is_always_lock_free);

// Ranks that are threads have one object each.
std::mutex mutex;
int living = 0;
std::array<struct sigaction, kSignals.size()> before;

void remember(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
}

}  // namespace

StopSignal::StopSignal() {
  const std::lock_guard lock(mutex);
  if (living++ > 0) return;
  first_signal = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    ::sigaction(kSignals[i], &action, &before[i]);
}

StopSignal::~StopSignal() {
  const std::lock_guard lock(mutex);
  if (--living > 0) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    ::sigaction(kSignals[i], &before[i], nullptr);
}

bool StopSignal::has_come() const { return first_signal != 0; }

int last_stop_signal() { return first_signal; }

}  // namespace sheaf::train
