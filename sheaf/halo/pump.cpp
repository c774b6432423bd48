#include "sheaf/halo/pump.hpp"

#include <chrono>

namespace sheaf::halo {
namespace {

// Rare enough not to disturb the computing threads; about the time that a
// message of some kilobytes takes on a 1 Gbit/s link.
constexpr auto kNap = std::chrono::microseconds(100);

}  // namespace

Pump::~Pump() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Pump::add(const void* owner, const std::vector<comm::Work>& works) {
  if (works.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    for (const comm::Work& work : works) works_.push_back({owner, work});
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_all();
}

void Pump::remove(const void* owner) {
  const std::lock_guard lock(mutex_);
  works_.remove_if(
      [&](const OwnedWork& entry) { return entry.owner == owner; });
}

void Pump::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_closing_ || !works_.empty(); });
    if (is_closing_) return;
    works_.remove_if([](const OwnedWork& entry) { return entry.work.test(); });
    lock.unlock();
    std::this_thread::sleep_for(kNap);
    lock.lock();
  }
}

}  // namespace sheaf::halo
