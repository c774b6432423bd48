#include "sheaf/train/loop/evaluation.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/train/files/from_root.hpp"

namespace sheaf::train {
namespace {

// nullopt if the last weights should be tested.
std::optional<TrainState> best_to_test(TrainingSession& session,
                                       const TrainState& state,
                                       const CheckpointFolder& checkpoints) {
  if (!session.loaders().validation || state.best_step < 0 ||
      state.best_step == state.step)
    return std::nullopt;
  std::optional<TrainState> best;
  from_root(session.group(), [&] {
    try {
      best = checkpoints.load_step(state.best_step);
    } catch (const IoError& error) {
      throw IoError(concat(error.what(), "; the test needs it, because it has ",
                           "the best ", state.best_metric,
                           "; continue with --resume"));
    }
    return std::string();
  });
  return share_state(session.group(), best);
}

}  // namespace

MetricValues evaluate(TrainingSession& session, data::Loader& loader) {
  session.learner().share_weights();
  session.learner().set_training(false);
  Metrics metrics(session.classes());
  loader.set_epoch(0);
  for (data::Batch& batch : loader) session.learner().evaluate(batch, metrics);
  metrics.sum_over(session.group());
  return metrics.values();
}

std::optional<TestResult> test_best(TrainingSession& session,
                                    const TrainState& state,
                                    const CheckpointFolder& checkpoints) {
  auto& loader = session.loaders().test;
  if (!loader || loader->dataset().size() == 0) return std::nullopt;
  Learner& learner = session.learner();
  learner.share_weights();
  TrainState last;
  learner.save_to(last);
  for (auto& [name, tensor] : last.weights) tensor = tensor.clone();
  TestResult result;
  result.step = state.step;
  if (const auto best = best_to_test(session, state, checkpoints)) {
    learner.load_weights(best->weights);
    result.step = best->step;
  }
  result.values = evaluate(session, *loader);
  learner.load_weights(last.weights);
  return result;
}

void warn_if_not_finite(const char* what, std::int64_t step,
                        const MetricValues& values) {
  if (values.rows > 0 && !std::isfinite(values.loss))
    log_warn("the {} loss after step {} is {}, which is not finite", what, step,
             values.loss);
}

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
