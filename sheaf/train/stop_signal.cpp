#include "sheaf/train/stop_signal.hpp"

#include <signal.h>

#include <array>
#include <cstddef>

namespace sheaf::train {
namespace {

constexpr std::array kSignals{SIGTERM, SIGINT, SIGUSR1};

volatile sig_atomic_t first_signal = 0;
std::array<struct sigaction, kSignals.size()> before;

void remember(int signal) {
  if (first_signal == 0) first_signal = signal;
}

}  // namespace

StopSignal::StopSignal() {
  first_signal = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    ::sigaction(kSignals[i], &action, &before[i]);
}

StopSignal::~StopSignal() {
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    ::sigaction(kSignals[i], &before[i], nullptr);
}

bool StopSignal::has_come() const { return first_signal != 0; }

int last_stop_signal() { return first_signal; }

}  // namespace sheaf::train
