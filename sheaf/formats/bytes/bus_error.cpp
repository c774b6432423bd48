#include "sheaf/formats/bytes/bus_error.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

namespace sheaf::formats {

// Ranges form a list that only grows, so that the handler may read it at any
// time without a lock. Each takes 40 bytes, once per mapped file.
struct BusErrorWatch::Range {
  std::uintptr_t begin;
  std::uintptr_t end;
  Range* next = nullptr;
  std::atomic<bool> is_watched{true};
  std::atomic<bool> has_failed{false};
};

namespace {

std::atomic<BusErrorWatch::Range*> newest_range{nullptr};
std::uintptr_t page_bytes = 0;
struct sigaction earlier {};

// Everything behind the page is replaced as well: if the file was truncated, it
// is lost too, and otherwise the range is not used any more.
bool replace_by_zeros(BusErrorWatch::Range& range, std::uintptr_t address) {
  range.has_failed.store(true);
  const std::uintptr_t page = address / page_bytes * page_bytes;
  return ::mmap(reinterpret_cast<void*>(page), range.end - page,
                PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                0) != MAP_FAILED;
}

bool replace_by_zeros(std::uintptr_t address) {
  for (auto* range = newest_range.load(); range; range = range->next)
    if (range->is_watched.load() && address >= range->begin &&
        address < range->end)
      return replace_by_zeros(*range, address);
  return false;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  const bool is_fault = info->si_code > 0;  // otherwise sent by kill()
  if (earlier.sa_flags & SA_SIGINFO)
    return earlier.sa_sigaction(signal, info, context);
  if (earlier.sa_handler == SIG_IGN && !is_fault) return;
  if (earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN)
    return earlier.sa_handler(signal);
  // On return, the default action follows: a fault repeats itself, and a signal
  // that is sent now is delivered then.
  ::signal(signal, SIG_DFL);
  if (!is_fault) ::raise(signal);
}

// Uses only lock-free atomics and system calls.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool is_replaced =
      info->si_code == BUS_ADRERR &&
      replace_by_zeros(reinterpret_cast<std::uintptr_t>(info->si_addr));
  errno = error;
  if (!is_replaced) pass_on(signal, info, context);
}

void install_handler() {
  page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  ::sigaction(SIGBUS, nullptr, &earlier);
  struct sigaction own {};
  own.sa_sigaction = on_bus_error;
  own.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  ::sigaction(SIGBUS, &own, nullptr);
}

}  // namespace

BusErrorWatch::BusErrorWatch(void* begin, std::size_t bytes) {
  static std::once_flag is_installed;
  std::call_once(is_installed, install_handler);
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  range_ = new Range{first, first + bytes};
  range_->next = newest_range.load();
  while (!newest_range.compare_exchange_weak(range_->next, range_)) continue;
}

BusErrorWatch::~BusErrorWatch() { range_->is_watched.store(false); }

bool BusErrorWatch::has_failed() const { return range_->has_failed.load(); }

}  // namespace sheaf::formats
