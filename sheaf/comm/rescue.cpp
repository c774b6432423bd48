#include "sheaf/comm/rescue.hpp"

#include <chrono>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {

constexpr std::chrono::milliseconds kPeriod(100);
// A call that is only slow, on a crowded machine, has this long.
constexpr int kMostRounds = 4;

}  // namespace

Rescue::Rescue(Breakable& library, HostMemory& memory, const Layout& world)
    : library_(library),
      memory_(memory),
      world_(world),
      thread_([this] { run(); }) {}

Rescue::~Rescue() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  stop_.notify_one();
  thread_.join();
}

void Rescue::run() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, kPeriod, [this] { return is_stopping_; }))
    look();
}

void Rescue::look() {
  const std::uint64_t call = library_.call();
  if (call != stuck_call_) rounds_ = 0;
  stuck_call_ = call;
  if (call == 0) return;
  const std::string reason = death();
  if (!reason.empty() && ++rounds_ >= kMostRounds)
    library_.interrupt(call, reason);
}

std::string Rescue::death() const {
  const Alarm& alarm = memory_.alarm();
  for (std::uint32_t i = 0; i < alarm.count(); ++i)
    if (alarm.record(i).kind == AlarmKind::kRankDied)
      return concat("rank ", alarm.record(i).rank, " has died");
  for (const int rank : world_.local_ranks()) {
    const int local = world_.local_of[static_cast<std::size_t>(rank)];
    if (memory_.life_of(local) != HostMemory::Life::kDead) continue;
    memory_.alarm().raise(AlarmKind::kRankDied, rank, -1, "");
    return concat("rank ", rank, " has died");
  }
  return "";
}

}  // namespace sheaf::comm
