// Ring all-reduce. The range is divided into one chunk per participant. Each
// chunk travels around the ring twice: P-1 steps with additions, then P-1 steps
// with copies. Chunk i starts at participant i+1 and is finished at participant
// i.
//
// Cost: 2(P-1) messages, 2(P-1)/P of the range sent per participant.

#include <numeric>

#include "sheaf/comm/algorithms/schedule.hpp"

namespace sheaf::comm {

Range chunk_of(Range range, int index, int chunks) {
  const auto i = static_cast<std::size_t>(index);
  const auto n = static_cast<std::size_t>(chunks);
  const std::size_t begin = range.count * i / n;
  const std::size_t end = range.count * (i + 1) / n;
  return {range.begin + begin, end - begin};
}

Scattered ring_reduce_scatter(const std::vector<int>& members, int me,
                              Range range, bool finishes) {
  const int size = static_cast<int>(members.size());
  const auto chunk = [&](int index) {
    return chunk_of(range, (index % size + size) % size, size);
  };
  Scattered result{{}, chunk(me)};
  const int next = members[static_cast<std::size_t>((me + 1) % size)];
  const int previous =
      members[static_cast<std::size_t>((me + size - 1) % size)];
  for (int step = 0; step < size - 1; ++step)
    result.steps.push_back({.send_to = next,
                            .sent = chunk(me - 1 - step),
                            .receive_from = previous,
                            .received = chunk(me - 2 - step),
                            .adds = true,
                            .finishes = finishes && step == size - 2,
                            .is_partial = true});
  return result;
}

Schedule ring_all_gather(const std::vector<int>& members, int me, Range range) {
  const int size = static_cast<int>(members.size());
  const auto chunk = [&](int index) {
    return chunk_of(range, (index % size + size) % size, size);
  };
  Schedule steps;
  const int next = members[static_cast<std::size_t>((me + 1) % size)];
  const int previous =
      members[static_cast<std::size_t>((me + size - 1) % size)];
  for (int step = 0; step < size - 1; ++step)
    steps.push_back({.send_to = next,
                     .sent = chunk(me - step),
                     .receive_from = previous,
                     .received = chunk(me - 1 - step)});
  return steps;
}

Schedule ring_schedule(int size, int me, Range range) {
  return tiers_schedule({size}, {TierAlgorithm::kRing}, me, range);
}

}  // namespace sheaf::comm
