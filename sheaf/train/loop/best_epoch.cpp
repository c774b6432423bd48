#include "sheaf/train/loop/best_epoch.hpp"

#include <limits>
#include <vector>

#include "sheaf/comm/group/collectives.hpp"

namespace sheaf::train {

std::string metric_name(const EarlyStoppingConfig& rule, bool has_validation) {
  return (has_validation ? "validation_" : "train_") + rule.metric;
}

// All ranks have the same metrics, but rank 0 decides, so that rounding
// differences cannot make ranks diverge.
bool judge_epoch(const comm::Group& group, const EarlyStoppingConfig& rule,
                 const MetricValues& values, bool has_validation,
                 TrainState& state) {
  const double value = values.get(rule.metric);
  const bool is_best =
      is_better(rule.metric, value, state.best, rule.min_change);
  const std::int64_t waited = is_best ? 0 : state.epochs_since_best + 1;
  std::vector<std::int64_t> decision{
      is_best, waited, rule.patience > 0 && waited >= rule.patience};
  comm::broadcast(group, decision, {.name = "early stopping"}).wait();
  state.epochs_since_best = decision[1];
  state.has_stopped_early = decision[2] != 0;
  if (decision[0] == 0) return false;
  state.best = value;
  state.best_step = state.step;
  state.best_metric = metric_name(rule, has_validation);
  return true;
}

void forget_best(TrainState& state) {
  state.best = std::numeric_limits<double>::quiet_NaN();
  state.best_step = -1;
  state.best_metric.clear();
}

}  // namespace sheaf::train
