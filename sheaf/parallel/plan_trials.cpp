#include "sheaf/parallel/plan_trials.hpp"

#include <algorithm>

namespace sheaf::parallel {
namespace {

constexpr double kClearly = 0.98;

}  // namespace

void PlanTrials::add(double ms) {
  if (passes_++ == 0) return;
  double& best = best_ms_[plan()];
  best = best == 0 ? ms : std::min(best, ms);
}

void PlanTrials::next_turn() {
  ++turn_;
  passes_ = 0;
}

std::size_t fastest_plan(const std::vector<double>& ms) {
  const auto best = std::min_element(ms.begin(), ms.end());
  if (best == ms.end() || *best > kClearly * ms[0]) return 0;
  return static_cast<std::size_t>(best - ms.begin());
}

}  // namespace sheaf::parallel
