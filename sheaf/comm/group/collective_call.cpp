#include "sheaf/comm/group/collective_call.hpp"

#include <array>
#include <bit>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/process/mailroom.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {
namespace {

// Fingerprints have no padding, and comparing whole words is faster than
// comparing members.
using Words = std::array<std::uint64_t, 3>;
static_assert(sizeof(Words) == sizeof(Fingerprint));

Fingerprint numbered(GroupCore& group, Fingerprint fingerprint) {
  group.throw_if_failed();
  fingerprint.sequence = group.next_sequence();
  return fingerprint;
}

}  // namespace

CollectiveCall::CollectiveCall(GroupCore& group, const Fingerprint& fingerprint,
                               std::chrono::milliseconds timeout)
    : PeerWait(group, numbered(group, fingerprint), timeout) {
  Runtime& runtime = group.runtime();
  runtime.add_calls(1);
  if (is_end()) {
    runtime.mailroom().stop_keeping();
    runtime.my_end().note_end();
  } else {
    runtime.my_end().note_call(group.number_of(sequence()));
  }
}

CollectiveCall::~CollectiveCall() {
  Transport& transport = group_.runtime().transport();
  transport.abandon(guard_send_);
  transport.abandon(guard_receive_);
  group_.runtime().add_calls(-1);
}

void CollectiveCall::arrive(const void* data, std::size_t bytes) {
  if (host_map().host_count() > 1) start_guard();
  local().arrive(fingerprint_, data, bytes);
  if (local().size() == 1) return;
  // Reading the clock is a significant part of the cost of a small operation.
  const bool is_timed = group_.runtime().options().dump_iter > 0;
  const std::int64_t start = is_timed ? now_ns() : 0;
  for (int i = 0; i < local().size(); ++i) {
    if (i == local().me()) continue;
    Slot& slot = local().slot(i, sequence());
    wait(slot.sequence, slot.sleepers, sequence());
  }
  if (is_timed) waited_ns_ = now_ns() - start;
  if (!group_.runtime().has_guard()) return;
  const auto mine = std::bit_cast<Words>(fingerprint_);
  for (int i = 0; i < local().size(); ++i) {
    const Fingerprint& theirs = local().slot(i, sequence()).call;
    if (std::bit_cast<Words>(theirs) != mine) [[unlikely]]
      compare_with(host_map().local_ranks()[static_cast<std::size_t>(i)],
                   theirs);
  }
}

void CollectiveCall::compare_with(int rank, const Fingerprint& theirs) {
  if (theirs == fingerprint_) [[likely]]
    return;
  if (is_end_of_program(theirs)) throw_ended(rank);
  if (is_end()) wait_for_failure();
  // Both ranks detect the mismatch and must produce the same text: the lower
  // rank comes first.
  const bool mine_first = host_map().rank < rank;
  const std::string mine = concat(group_.rank_text(host_map().rank), " calls ",
                                  describe(fingerprint_));
  const std::string other =
      concat(group_.rank_text(rank), " calls ", describe(theirs));
  const std::string text =
      concat("the ranks of group ", group_.id(),
             " disagree: ", mine_first ? mine : other, ", but ",
             mine_first ? other : mine,
             "; all ranks must make the same calls in the same order");
  disagree(text);
}

// This rank's program has ended, but another rank is still waiting for it. That
// rank reports the error; until then this one keeps processing messages.
void CollectiveCall::wait_for_failure() {
  for (;;) {
    check();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void CollectiveCall::disagree(const std::string& text) {
  report(AlarmKind::kMismatch, text);
  throw MismatchError(text);
}

void CollectiveCall::report(AlarmKind kind, const std::string& text) {
  group_.runtime().raise(kind, group_.world_rank(host_map().rank),
                         group_.alarm_key(), text);
}

bool CollectiveCall::has_arrived(int rank) const {
  const int member = host_map().local_of[static_cast<std::size_t>(rank)];
  if (host_map().is_local(rank))
    return group_.local()
        .slot(member, sequence())
        .sequence.has_reached(sequence());
  const auto last = group_.runtime().latest(group_.world_rank(rank));
  return last && last->group == group_.id() &&
         static_cast<std::int32_t>(last->call.sequence - sequence()) >= 0;
}

bool CollectiveCall::is_owed_by(int rank) {
  return !group_.runtime()
              .end_of(group_.world_rank(rank))
              .has_made(group_.number_of(sequence()));
}

void CollectiveCall::start_guard() {
  if (host_map().local != 0 || !group_.runtime().has_guard()) return;
  const int hosts = host_map().host_count();
  const auto first_of = [&](int host) {
    return group_.world_rank(
        host_map().hosts[static_cast<std::size_t>(host)].front());
  };
  const Tag tag = make_tag(TagKind::kGuard, group_.id());
  Transport& transport = group_.runtime().transport();
  guard_receive_ =
      transport.receive(first_of((host_map().host + hosts - 1) % hosts), tag,
                        &guard_theirs_, sizeof guard_theirs_);
  guard_send_ = transport.send(first_of((host_map().host + 1) % hosts), tag,
                               &fingerprint_, sizeof fingerprint_);
}

bool CollectiveCall::poll_guard() {
  Transport& transport = group_.runtime().transport();
  if (guard_receive_ && transport.test(guard_receive_)) {
    const int hosts = host_map().host_count();
    const int previous = (host_map().host + hosts - 1) % hosts;
    compare_with(host_map().hosts[static_cast<std::size_t>(previous)].front(),
                 guard_theirs_);
  }
  return !guard_receive_ && transport.test(guard_send_);
}

void CollectiveCall::finish() {
  while (!poll_guard()) idle();
  note_end();
}

std::byte* CollectiveCall::heap_of(int member) {
  const int rank = host_map().local_ranks()[static_cast<std::size_t>(member)];
  const auto world_rank = static_cast<std::size_t>(group_.world_rank(rank));
  Runtime& runtime = group_.runtime();
  return runtime.memory().base(runtime.host_map().local_of[world_rank]);
}

}  // namespace sheaf::comm
