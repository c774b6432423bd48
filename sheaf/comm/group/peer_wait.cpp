#include "sheaf/comm/group/peer_wait.hpp"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/process/mailroom.hpp"

namespace sheaf::comm {
namespace {

constexpr auto kSleepSlice = std::chrono::milliseconds(20);
constexpr auto kProgressSlice = std::chrono::milliseconds(1);
constexpr std::int64_t kCheckPeriodNs = 15'000'000;
constexpr int kSpins = 2000;
constexpr int kSpinsOversubscribed = 20;
constexpr int kYields = 20;
constexpr int kBusyRounds = 200;
constexpr int kYieldRounds = 2000;
// Alarms of other hosts arrive within a few polls of the monitors.
constexpr std::int64_t kCauseNs = 500'000'000;

// Sleep time between polls of the transport. Short at first, because a message
// may arrive soon, except in patient groups, where every wake-up disturbs a
// computing thread. Long when nothing has arrived for some tenths of a second.
std::chrono::microseconds nap(int round, bool is_patient) {
  if (round >= 1000) return std::chrono::milliseconds(2);
  if (is_patient) return std::chrono::microseconds(400);
  return std::chrono::microseconds(round < 500 ? 20 : 200);
}

RankHeader& my_header(GroupCore& group) {
  Runtime& runtime = group.runtime();
  return runtime.memory().header(runtime.host_map().local);
}

}  // namespace

PeerWait::PeerWait(GroupCore& group, const Fingerprint& fingerprint,
                   std::chrono::milliseconds timeout)
    : group_(group),
      fingerprint_(fingerprint),
      timeout_(timeout.count() > 0 ? timeout : group.runtime().timeout()) {
  flight_ticket_ = my_header(group).flight.begin(fingerprint_, group.id());
}

void PeerWait::note_end() { my_header(group_).flight.end(flight_ticket_); }

void PeerWait::wait(Counter& counter, std::atomic<std::uint32_t>& sleepers,
                    std::uint32_t target) {
  if (counter.has_reached(target)) [[likely]]
    return;
  spin_or_sleep(counter, sleepers, target);
}

void PeerWait::spin_or_sleep(Counter& counter,
                             std::atomic<std::uint32_t>& sleepers,
                             std::uint32_t target) {
  const bool is_crowded =
      group_.runtime().is_oversubscribed() || group_.is_patient();
  const int spins = is_crowded ? kSpinsOversubscribed : kSpins;
  for (int i = 0; i < spins; ++i) {
    if (counter.has_reached(target)) return;
    cpu_relax();
  }
  // On a busy machine the other rank may need this processor.
  for (int i = 0; i < kYields; ++i) {
    if (counter.has_reached(target)) return;
    sched_yield();
  }
  while (!sleep_until(counter, sleepers, target,
                      help_messages() ? kProgressSlice : kSleepSlice)) {
    if (!is_check_due()) continue;
    try {
      check();
    } catch (...) {
      // The rank may have done its part and then ended.
      if (counter.has_reached(target)) return;
      throw;
    }
  }
}

bool PeerWait::help_messages() {
  Mailroom& mailroom = group_.runtime().mailroom();
  // At the end of a program, other ranks may still request its last messages.
  const bool is_busy = mailroom.is_busy() || is_end_of_program(fingerprint_);
  if (is_busy) mailroom.progress();
  return group_.runtime().transport().progress() || is_busy;
}

bool PeerWait::is_check_due() {
  const std::int64_t now = now_ns();
  if (now - last_check_ns_ < kCheckPeriodNs) return false;
  last_check_ns_ = now;
  return true;
}

void PeerWait::idle() {
  ++idle_rounds_;
  const bool is_patient = group_.is_patient();
  if (idle_rounds_ < kBusyRounds && !is_patient &&
      !group_.runtime().is_oversubscribed()) {
    cpu_relax();
    return;
  }
  if (is_patient)
    std::this_thread::sleep_for(nap(idle_rounds_, is_patient));
  else if (idle_rounds_ < kYieldRounds)
    sched_yield();
  else
    std::this_thread::sleep_for(nap(idle_rounds_ - kYieldRounds, is_patient));
  if (is_check_due()) check();
}

void PeerWait::check() {
  poll();
  help_messages();
  check_ends();
  check_alarms();
  check_lives();
  const std::int64_t now = now_ns();
  if (deadline_ns_ == 0)
    deadline_ns_ =
        now + std::chrono::nanoseconds(timeout_).count() - kCheckPeriodNs;
  if (now > deadline_ns_) throw_timeout();
}

void PeerWait::explain(const TransportError& error) {
  look_for_cause();
  const std::string text = concat(who(), " cannot complete: ", error.what());
  report_failure(text);
  group_.runtime().mark_failed();
  throw CommError(text);
}

void PeerWait::look_for_cause() {
  for (const auto until = now_ns() + kCauseNs; now_ns() < until;) {
    try {
      poll();
    } catch (const TransportError&) {  // has the same cause
    }
    check_alarms();
    check_ends();
    check_lives();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void PeerWait::check_alarms() {
  alarms_.for_each_new(
      group_.runtime().memory().alarm(),
      [this](const AlarmRecord& record) { check_alarm(record); });
}

void PeerWait::check_alarm(const AlarmRecord& record) {
  if (record.kind == AlarmKind::kTooMany)
    throw CommError(concat(who(), " cannot complete: so many groups have ",
                           "failed that this one may be among them; see the ",
                           "first errors of the ranks"));
  const auto& members = group_.world_ranks();
  const auto found = std::find(members.begin(), members.end(), record.rank);
  if (found == members.end()) return;  // of another group with the same id
  if (record.kind == AlarmKind::kRankDied)
    throw_death(static_cast<int>(found - members.begin()), record.text);
  if (record.group != group_.alarm_key()) return;
  if (record.kind == AlarmKind::kMismatch) throw MismatchError(record.text);
  throw CommError(record.text);
}

void PeerWait::check_lives() {
  Runtime& runtime = group_.runtime();
  for (const int rank : host_map().local_ranks()) {
    if (rank == host_map().rank) continue;
    const int world = group_.world_rank(rank);
    const auto life = runtime.memory().life_of(
        runtime.host_map().local_of[static_cast<std::size_t>(world)]);
    if (life != HostMemory::Life::kDead) continue;
    runtime.raise(AlarmKind::kRankDied, world, -1, "");
    throw_death(rank, "");
  }
}

void PeerWait::check_ends() {
  if (is_end_of_program(fingerprint_)) return;
  const Runtime& runtime = group_.runtime();
  for (int rank = 0; rank < host_map().size(); ++rank) {
    if (rank == host_map().rank) continue;
    if (runtime.end_of(group_.world_rank(rank)).has_ended() && is_owed_by(rank))
      throw_ended(rank);
  }
}

std::string PeerWait::who() const {
  return concat(group_.rank_text(group_.rank()), ": ", describe(fingerprint_),
                " of group ", group_.id());
}

void PeerWait::throw_ended(int rank) {
  const auto text = [&](const std::string& waiting) {
    return concat(
        group_.rank_text(rank), " has exited normally while ", waiting,
        " waits for it in ", describe(fingerprint_), " of group ", group_.id(),
        " (for example, ranks take different numbers of steps; see join())");
  };
  const std::string me = group_.rank_text(group_.rank());
  report_failure(text(me));
  throw CommError(concat(me, ": ", text("this rank")));
}

// A rank that ended normally may have caused the failure of the dead one.
void PeerWait::look_for_ends(int dead) {
  const auto has_ended = [&](int rank) {
    return rank != dead && group_.runtime().end_of(rank).has_ended();
  };
  if (is_end_of_program(fingerprint_) ||
      std::none_of(group_.world_ranks().begin(), group_.world_ranks().end(),
                   has_ended))
    return;
  for (const auto until = now_ns() + kCauseNs; now_ns() < until;) {
    poll();
    help_messages();
    check_ends();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void PeerWait::throw_death(int rank, const std::string& cause) {
  // The loss of a host, unlike a death, has no cause among the ranks.
  if (cause.empty()) look_for_ends(group_.world_rank(rank));
  // The end cannot wait for a rank that has died.
  group_.runtime().mark_failed();
  std::string text =
      concat(who(), " cannot complete: ", group_.rank_text(rank),
             cause.empty() ? " has died" : concat(" is lost: ", cause));
  const auto last = group_.runtime().latest(group_.world_rank(rank));
  if (last) text += concat("; it was ", describe(*last, now_ns()));
  throw CommError(text);
}

void PeerWait::throw_timeout() {
  group_.runtime().refresh_remote();
  std::string missing;
  std::string places;
  const std::int64_t now = now_ns();
  for (int rank = 0; rank < host_map().size(); ++rank) {
    if (rank == host_map().rank) continue;
    const auto last = group_.runtime().latest(group_.world_rank(rank));
    if (!has_arrived(rank))
      missing += concat(missing.empty() ? "" : ", ", rank);
    places += concat("\n  ", group_.rank_text(rank), " is ",
                     last ? describe(*last, now) : "not in any operation yet");
  }
  throw TimeoutError(
      concat(who(), " timed out after ", timeout_.count(), " ms; ",
             missing.empty() ? "all ranks have arrived"
                             : concat("not arrived: rank ", missing),
             "; increase the timeout if these ranks are only slow", places));
}

}  // namespace sheaf::comm
