// Ring all-reduce. The range is divided into one part per place. Each part
// travels around the ring twice: P-1 steps with additions, then P-1 steps with
// copies. Part i starts at place i+1 and is finished at place i.
// Cost: 2(P-1) messages, 2(P-1)/P of the range sent per place.

#include <numeric>

#include "sheaf/comm/algorithms/schedule.hpp"

namespace sheaf::comm {

Range part_of(Range range, int index, int parts) {
  const auto i = static_cast<std::size_t>(index);
  const auto n = static_cast<std::size_t>(parts);
  const std::size_t begin = range.count * i / n;
  const std::size_t end = range.count * (i + 1) / n;
  return {range.begin + begin, end - begin};
}

Scattered ring_reduce_scatter(const std::vector<int>& members, int me,
                              Range range, bool finishes) {
  const int size = static_cast<int>(members.size());
  const auto part = [&](int index) {
    return part_of(range, (index % size + size) % size, size);
  };
  Scattered result{{}, part(me)};
  const int next = members[static_cast<std::size_t>((me + 1) % size)];
  const int previous =
      members[static_cast<std::size_t>((me + size - 1) % size)];
  for (int step = 0; step < size - 1; ++step)
    result.steps.push_back({.send_to = next,
                            .sent = part(me - 1 - step),
                            .receive_from = previous,
                            .received = part(me - 2 - step),
                            .adds = true,
                            .finishes = finishes && step == size - 2,
                            .is_partial = true});
  return result;
}

Schedule ring_all_gather(const std::vector<int>& members, int me, Range range) {
  const int size = static_cast<int>(members.size());
  const auto part = [&](int index) {
    return part_of(range, (index % size + size) % size, size);
  };
  Schedule steps;
  const int next = members[static_cast<std::size_t>((me + 1) % size)];
  const int previous =
      members[static_cast<std::size_t>((me + size - 1) % size)];
  for (int step = 0; step < size - 1; ++step)
    steps.push_back({.send_to = next,
                     .sent = part(me - step),
                     .receive_from = previous,
                     .received = part(me - 1 - step)});
  return steps;
}

Schedule ring_schedule(int size, int me, Range range) {
  return tiers_schedule({size}, {TierAlgorithm::kRing}, me, range);
}

}  // namespace sheaf::comm
