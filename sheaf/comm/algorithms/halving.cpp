// Recursive halving and doubling (Rabenseifner). Halving: partners at distance
// P/2, P/4 .. 1 exchange halves of their current range and add. Doubling: the
// same exchanges in reverse order, with copies instead of additions.
// Cost: 2 log2 P messages, 2(P-1)/P of the range sent per participant.
// If P is not a power of two, the participants above the largest power of two
// first send their whole range to a partner below it, and receive the result
// from it at the end.

#include <bit>
#include <numeric>

#include "sheaf/comm/algorithms/schedule.hpp"

namespace sheaf::comm {
namespace {

// The range that member `me` holds before the first halving and after each.
std::vector<Range> held_ranges(int size, int me, Range range) {
  std::vector<Range> held{range};
  for (int distance = size / 2; distance >= 1; distance /= 2)
    held.push_back(chunk_of(held.back(), (me & distance) ? 1 : 0, 2));
  return held;
}

}  // namespace

Scattered halving_reduce_scatter(const std::vector<int>& members, int me,
                                 Range range, bool finishes) {
  const int size = static_cast<int>(members.size());
  const auto held = held_ranges(size, me, range);
  Scattered result{{}, held.back()};
  std::size_t level = 0;
  for (int distance = size / 2; distance >= 1; distance /= 2, ++level) {
    const int partner = members[static_cast<std::size_t>(me ^ distance)];
    const int mine = (me & distance) ? 1 : 0;
    result.steps.push_back({.send_to = partner,
                            .sent = chunk_of(held[level], 1 - mine, 2),
                            .receive_from = partner,
                            .received = held[level + 1],
                            .adds = true,
                            .finishes = finishes && distance == 1,
                            .is_partial = true});
  }
  return result;
}

Schedule doubling_all_gather(const std::vector<int>& members, int me,
                             Range range) {
  const int size = static_cast<int>(members.size());
  const auto held = held_ranges(size, me, range);
  Schedule steps;
  std::size_t level = held.size() - 1;
  for (int distance = 1; distance < size; distance *= 2, --level) {
    const int partner = members[static_cast<std::size_t>(me ^ distance)];
    const int mine = (me & distance) ? 1 : 0;
    steps.push_back({.send_to = partner,
                     .sent = held[level],
                     .receive_from = partner,
                     .received = chunk_of(held[level - 1], 1 - mine, 2)});
  }
  return steps;
}

Schedule halving_schedule(int size, int me, Range range) {
  const int core =
      static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  const int extra = size - core;
  if (me >= core)
    return {{.send_to = me - core, .sent = range, .is_partial = true},
            {.receive_from = me - core, .received = range}};
  Schedule steps;
  const bool has_partner = me < extra;
  if (has_partner)
    steps.push_back(
        {.receive_from = me + core, .received = range, .adds = true});
  std::vector<int> members(static_cast<std::size_t>(core));
  std::iota(members.begin(), members.end(), 0);
  auto scattered =
      halving_reduce_scatter(members, me, range, /*finishes=*/true);
  steps.insert(steps.end(), scattered.steps.begin(), scattered.steps.end());
  const auto gathered = doubling_all_gather(members, me, range);
  steps.insert(steps.end(), gathered.begin(), gathered.end());
  if (has_partner) steps.push_back({.send_to = me + core, .sent = range});
  return steps;
}

}  // namespace sheaf::comm
