#include "sheaf/comm/process/rescue.hpp"

#include <chrono>
#include <optional>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {

constexpr std::chrono::milliseconds kPeriod(100);
// Number of periods granted to a call that may just be slow, on a busy machine.
constexpr int kMostRounds = 4;

}  // namespace

Rescue::Rescue(Breakable& library, Runtime& runtime)
    : library_(library), runtime_(runtime), thread_([this] { run(); }) {}

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
  if (call != stuck_call_) {
    rounds_ = 0;
    stuck_since_ = std::chrono::steady_clock::now();
  }
  stuck_call_ = call;
  if (call == 0) return;
  const std::string why = reason();
  if (!why.empty() && ++rounds_ >= kMostRounds) library_.interrupt(call, why);
}

std::string Rescue::reason() const {
  if (!runtime_.has_connected()) {
    const bool is_late =
        std::chrono::steady_clock::now() - stuck_since_ > runtime_.timeout();
    return is_late ? "the start has timed out" : "";
  }
  const std::string dead = death();
  return dead.empty() ? missing_end() : dead;
}

std::string Rescue::death() const {
  HostMemory& memory = runtime_.memory();
  std::optional<int> dead;
  AlarmReader().for_each_new(memory.alarm(), [&](const AlarmRecord& record) {
    if (record.kind == AlarmKind::kRankDied && !dead) dead = record.rank;
  });
  if (dead) return concat("rank ", *dead, " has died");
  const HostMap& world = runtime_.host_map();
  for (const int rank : world.local_ranks()) {
    const int local = world.local_of[static_cast<std::size_t>(rank)];
    if (memory.life_of(local) != HostMemory::Life::kDead) continue;
    memory.alarm().raise(AlarmKind::kRankDied, rank, -1, "");
    return concat("rank ", rank, " has died");
  }
  return "";
}

// A blocking call of the library is either part of the collective that this
// rank is in or a plain library call (kPlainCalls). Other calls always return.
std::string Rescue::missing_end() const {
  const auto latest = runtime_.latest(runtime_.rank());
  const bool is_in_collective =
      latest && !latest->has_ended && latest->call.operation < Operation::kSend;
  const CallNumber call =
      runtime_.my_end().last(is_in_collective ? latest->group : kPlainCalls);
  for (int rank = 0; rank < runtime_.size(); ++rank) {
    const RankEnd& end = runtime_.end_of(rank);
    if (rank != runtime_.rank() && end.has_ended() && !end.has_made(call))
      return concat("rank ", rank,
                    " has exited normally while this rank waits for "
                    "it");
  }
  return "";
}

}  // namespace sheaf::comm
