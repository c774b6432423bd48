#include "sheaf/comm/algorithms/host_streams.hpp"

#include <algorithm>
#include <cstring>

namespace sheaf::comm {
namespace {

constexpr std::size_t kWindowBytes = std::size_t{256} << 10;

Counter& staged_counter(Progress& progress) { return progress.staged; }
Counter& taken(Progress& progress) { return progress.taken; }

void exchange_in_place(CollectiveCall& call, const Streams& streams,
                       std::size_t longest, const Consume& consume) {
  LocalGroup& local = call.local();
  const std::uint32_t target = call.group().segments() + 1;
  consume({0, longest}, streams.in_place);
  Progress& mine = local.progress(local.me());
  publish(mine.taken, mine.sleepers, target);
  call.wait_all(taken, target);
}

class Staged {
 public:
  Staged(CollectiveCall& call, const Streams& streams)
      : call_(call),
        local_(call.local()),
        streams_(streams),
        base_(call.group().segments()) {}

  void offer(std::size_t window, Range range) {
    // The count continues over the lifetime of the group: a member may still be
    // reading an earlier exchange of the same call.
    call_.wait_all(taken, count_at(window + 1) - kStageSlots);
    const auto me = static_cast<std::size_t>(local_.me());
    const Range part = overlap(range, 0, streams_.bytes[me]);
    if (part.count)
      std::memcpy(local_.staging(local_.me(), count_at(window)),
                  streams_.mine + part.begin, part.count);
    Progress& mine = local_.progress(local_.me());
    publish(mine.staged, mine.sleepers, count_at(window + 1));
  }

  void take(std::size_t window, Range range, const Consume& consume) {
    call_.wait_all(staged_counter, count_at(window + 1));
    std::vector<const std::byte*> at;
    for (int member = 0; member < local_.size(); ++member)
      at.push_back(member == local_.me()
                       ? streams_.mine + range.begin
                       : local_.staging(member, count_at(window)));
    consume(range, at);
    Progress& mine = local_.progress(local_.me());
    publish(mine.taken, mine.sleepers, count_at(window + 1));
  }

 private:
  std::uint32_t count_at(std::size_t windows) const {
    return base_ + static_cast<std::uint32_t>(windows);
  }

  CollectiveCall& call_;
  LocalGroup& local_;
  const Streams& streams_;
  const std::uint32_t base_;
};

}  // namespace

void find_in_place(CollectiveCall& call, Streams& streams) {
  for (int member = 0; member < call.local().size(); ++member) {
    SharedBuffers theirs;
    std::memcpy(&theirs, call.payload(member, sizeof theirs), sizeof theirs);
    const bool is_shared = theirs.input != SharedBuffers::kNotShared;
    if (!is_shared && streams.bytes[static_cast<std::size_t>(member)] > 0) {
      streams.in_place.clear();
      return;
    }
    const std::byte* heap = call.heap_of(member);
    streams.in_place.push_back(is_shared ? heap + theirs.input : heap);
  }
}

Range overlap(Range window, std::size_t begin, std::size_t bytes) {
  const std::size_t from = std::max(window.begin, begin);
  const std::size_t to = std::min(window.begin + window.count, begin + bytes);
  return {from, to > from ? to - from : 0};
}

void exchange(CollectiveCall& call, const Streams& streams,
              const Consume& consume) {
  const std::size_t longest =
      *std::max_element(streams.bytes.begin(), streams.bytes.end());
  if (longest == 0) return;
  LocalGroup& local = call.local();
  if (local.size() == 1) {
    const std::byte* mine[] = {streams.mine};
    consume({0, longest}, mine);
    return;
  }
  std::size_t windows = 1;
  if (!streams.in_place.empty()) {
    exchange_in_place(call, streams, longest, consume);
  } else {
    windows = (longest + kWindowBytes - 1) / kWindowBytes;
    const auto range = [&](std::size_t window) {
      return overlap({window * kWindowBytes, kWindowBytes}, 0, longest);
    };
    Staged staging(call, streams);
    staging.offer(0, range(0));
    for (std::size_t window = 0; window < windows; ++window) {
      if (window + 1 < windows) staging.offer(window + 1, range(window + 1));
      staging.take(window, range(window), consume);
    }
  }
  // Unused counters must advance, too, since they are compared by distance.
  call.group().add_segments(static_cast<std::uint32_t>(windows));
  Progress& mine = local.progress(local.me());
  for (Counter* counter : {&mine.staged, &mine.ready, &mine.taken})
    counter->value.store(call.group().segments(), std::memory_order_release);
}

}  // namespace sheaf::comm
