#include "sheaf/parallel/dad/plan_trials.hpp"

#include <algorithm>
#include <limits>

#include "sheaf/base/statistics.hpp"

namespace sheaf::parallel {
namespace {

constexpr double kClearly = 0.98;

}  // namespace

void PlanTrials::add(double ms) {
  if (done_++ > 0) ms_[plan()].push_back(ms);
}

void PlanTrials::next_turn() {
  ++turn_;
  done_ = 0;
}

std::vector<double> PlanTrials::median_ms() const {
  std::vector<double> medians;
  for (const auto& one : ms_)
    medians.push_back(one.empty() ? std::numeric_limits<double>::infinity()
                                  : median(one));
  return medians;
}

int passes_for(double predicted_ms) {
  constexpr double kTurnMs = 100;
  return static_cast<int>(
      std::clamp(kTurnMs / std::max(predicted_ms, 0.1), 2.0, 15.0));
}

std::size_t fastest_plan(const std::vector<double>& ms) {
  const auto best = std::min_element(ms.begin(), ms.end());
  if (best == ms.end() || *best > kClearly * ms[0]) return 0;
  return static_cast<std::size_t>(best - ms.begin());
}

}  // namespace sheaf::parallel
