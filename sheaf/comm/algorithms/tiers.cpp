// All-reduce over declared tiers (DDL's multi-ring, BlueConnect): tier by tier,
// a reduce-scatter within the groups of the tier; then all-gathers in reverse
// order. In tier i each participant holds only 1/(d0 .. d(i-1)) of the range,
// and the groups of a tier work in parallel. Cost with rings: sum over tiers of
// 2(d_i - 1) messages; the bytes sum to 2(P-1)/P of the range per participant,
// as for one ring, but the outer, slower tier carries the smallest share.

#include <bit>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/algorithms/schedule.hpp"

namespace sheaf::comm {
namespace {

// The participants that differ from `me` in one dimension only.
std::vector<int> members_of(const std::vector<int>& dims, std::size_t tier,
                            int me) {
  int stride = 1;
  for (std::size_t i = 0; i < tier; ++i) stride *= dims[i];
  const int index = me / stride % dims[tier];
  std::vector<int> members;
  for (int i = 0; i < dims[tier]; ++i)
    members.push_back(me + (i - index) * stride);
  return members;
}

int index_of(const std::vector<int>& dims, std::size_t tier, int me) {
  for (std::size_t i = 0; i < tier; ++i) me /= dims[i];
  return me % dims[tier];
}

void append(Schedule& steps, const Schedule& more, std::size_t tier) {
  for (Step step : more) {
    step.tier = static_cast<int>(tier);
    steps.push_back(step);
  }
}

// The schedule of the last tier: a complete all-reduce.
Schedule last_tier(TierAlgorithm algorithm, const std::vector<int>& members,
                   int me, Range range) {
  const int size = static_cast<int>(members.size());
  Schedule steps;
  if (algorithm == TierAlgorithm::kRing) {
    auto scattered = ring_reduce_scatter(members, me, range, true);
    steps = std::move(scattered.steps);
    append(steps, ring_all_gather(members, me, range), /*tier=*/0);
    return steps;
  }
  steps = algorithm == TierAlgorithm::kTree ? tree_schedule(size, me, range)
                                            : halving_schedule(size, me, range);
  for (Step& step : steps) {
    if (step.send_to >= 0)
      step.send_to = members[static_cast<std::size_t>(step.send_to)];
    if (step.receive_from >= 0)
      step.receive_from = members[static_cast<std::size_t>(step.receive_from)];
  }
  return steps;
}

}  // namespace

Schedule tiers_schedule(const std::vector<int>& dims,
                        const std::vector<TierAlgorithm>& algorithms, int me,
                        Range range) {
  SHEAF_ASSERT(dims.size() == algorithms.size(), dims.size(), " tiers");
  // Tiers of size 1 do nothing; the last of the other tiers finishes.
  std::size_t last = dims.size();
  for (std::size_t tier = 0; tier < dims.size(); ++tier)
    if (dims[tier] > 1) last = tier;
  if (last == dims.size()) return {};

  Schedule steps;
  std::vector<Range> ranges(dims.size());
  std::vector<Schedule> back(dims.size());
  for (std::size_t tier = 0; tier < last; ++tier) {
    if (dims[tier] == 1) continue;
    const auto members = members_of(dims, tier, me);
    const int index = index_of(dims, tier, me);
    const bool halves = algorithms[tier] == TierAlgorithm::kHalving &&
                        std::has_single_bit(static_cast<unsigned>(dims[tier]));
    auto scattered = halves
                         ? halving_reduce_scatter(members, index, range, false)
                         : ring_reduce_scatter(members, index, range, false);
    append(steps, scattered.steps, tier);
    back[tier] = halves ? doubling_all_gather(members, index, range)
                        : ring_all_gather(members, index, range);
    range = scattered.owned;
  }
  append(steps,
         last_tier(algorithms[last], members_of(dims, last, me),
                   index_of(dims, last, me), range),
         last);
  for (std::size_t tier = last; tier-- > 0;) append(steps, back[tier], tier);
  return steps;
}

}  // namespace sheaf::comm
