#include "sheaf/plan/graph/clocks.hpp"

#include <algorithm>

#include "sheaf/base/statistics.hpp"

namespace sheaf::plan {

std::vector<std::int64_t> clock_offsets(
    const std::vector<const StepGraph*>& ranks) {
  std::vector<std::int64_t> offsets;
  for (const StepGraph* rank : ranks) {
    std::vector<double> differences;
    for (std::size_t k = 0; k < rank->collectives.size(); ++k)
      differences.push_back(
          static_cast<double>(rank->collectives[k].span.end_ns -
                              ranks[0]->collectives[k].span.end_ns));
    offsets.push_back(differences.empty()
                          ? 0
                          : static_cast<std::int64_t>(median(differences)));
  }
  return offsets;
}

std::vector<std::int64_t> collective_ns(
    const std::vector<const StepGraph*>& ranks) {
  const auto offsets = clock_offsets(ranks);
  std::vector<std::int64_t> times;
  for (std::size_t k = 0; k < ranks[0]->collectives.size(); ++k) {
    std::int64_t begin = 0, end = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const Span& span = ranks[i]->collectives[k].span;
      begin =
          i == 0 ? span.begin_ns : std::max(begin, span.begin_ns - offsets[i]);
      end = std::max(end, span.end_ns - offsets[i]);
    }
    times.push_back(end - begin);
  }
  return times;
}

}  // namespace sheaf::plan
