#include <fmt/format.h>

#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/train/loop/trainer_run.hpp"

namespace sheaf::train {
namespace {

std::string seconds_text(double seconds) {
  return format_duration(
      std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
}

}  // namespace

// Evaluates the model that would be saved, which is the same on all ranks.
MetricValues TrainerRun::evaluate(data::Loader& loader) {
  learner_->share_weights();
  learner_->set_training(false);
  Metrics metrics(classes());
  loader.set_epoch(0);
  for (data::Batch& batch : loader) learner_->evaluate(batch, metrics);
  metrics.sum_over(group_);
  return metrics.values();
}

void TrainerRun::end_epoch(const Metrics& metrics) {
  RunTotals& totals = state_.totals;
  EpochReport report;
  report.epoch = state_.epoch;
  report.step = state_.step - 1;
  report.train = metrics.values();
  report.learning_rate = schedule_->rate(state_.step - 1);
  report.times = totals.open_times;
  report.skipped_steps = totals.open_skipped;
  if (validation_loader_) report.validation = evaluate(*validation_loader_);
  if (journal_ && report.validation)
    warn_if_not_finite("validation", *report.validation);
  report.is_best = judge(report.validation ? *report.validation : report.train);
  const double seconds = epoch_seconds_before_ + epoch_watch_.ms() / 1000;
  report.duration = 1000 * seconds;
  totals.train = report.train;
  totals.validation = report.validation.value_or(MetricValues{});
  totals.epoch_seconds += seconds;
  totals.times += totals.open_times;
  totals.open_times = {};
  totals.open_skipped = 0;
  ++totals.epochs;
  if (journal_) journal_->add(report);
  ++state_.epoch;
  state_.batch = 0;
  save(nullptr);
  if (state_.has_stopped_early)
    say(fmt::format("stopped early: no better {} for {} epochs",
                    config_.early_stopping.metric, state_.epochs_since_best));
}

// All ranks have the same metrics, but rank 0 decides, so that rounding
// differences cannot make ranks diverge.
bool TrainerRun::judge(const MetricValues& values) {
  const EarlyStoppingConfig& rule = config_.early_stopping;
  const double value = values.get(rule.metric);
  const bool is_best =
      is_better(rule.metric, value, state_.best, rule.min_change);
  const std::int64_t waited = is_best ? 0 : state_.epochs_since_best + 1;
  std::vector<std::int64_t> decision{
      is_best, waited, rule.patience > 0 && waited >= rule.patience};
  comm::broadcast(group_, decision, {.name = "early stopping"}).wait();
  state_.epochs_since_best = decision[1];
  state_.has_stopped_early = decision[2] != 0;
  if (decision[0] == 0) return false;
  state_.best = value;
  state_.best_step = state_.step;
  state_.best_metric = metric_name();
  return true;
}

std::string TrainerRun::metric_name() const {
  return (validation_loader_ ? "validation_" : "train_") +
         config_.early_stopping.metric;
}

void TrainerRun::save(const Metrics* metrics) {
  if (checks_finite()) check_finite_weights();
  learner_->share_weights();
  state_.totals.seconds = seconds_before_ + run_watch_.ms() / 1000;
  state_.totals.open_epoch_seconds =
      state_.batch > 0 ? epoch_seconds_before_ + epoch_watch_.ms() / 1000 : 0;
  state_.metric_sums.clear();
  if (metrics) {
    Metrics sum = *metrics;
    sum.sum_over(group_);
    state_.metric_sums = sum.sums();
  }
  learner_->gather_exchange(state_);
  if (journal_) tell_plan();  // gather_exchange() may have decided the plan
  const TraceSpan span(trace_.get(), "checkpoint", "train");
  if (writes_shards()) {
    learner_->save_share_to(state_, group_.rank(), group_.size());
    checkpoints_->save_shards(group_, state_);
    return;
  }
  learner_->save_to(state_);
  if (is_first()) checkpoints_->save(state_);
}

bool TrainerRun::writes_shards() const {
  const std::string& wish = config_.output.shards;
  const bool is_cut = config_.parallel.strategy == "spatial";
  return group_.size() > 1 && (wish == "ranks" || (wish == "auto" && is_cut));
}

// Tests the best weights, if there are any, and restores the last ones, which
// are the result of the run.
void TrainerRun::test() {
  if (!test_loader_ || test_loader_->dataset().size() == 0) return;
  learner_->share_weights();
  TrainState last;
  learner_->save_to(last);
  for (auto& [name, tensor] : last.weights) tensor = tensor.clone();
  result_.tested_step = state_.step;
  if (const auto best = share_state(group_, best_to_test())) {
    learner_->load_weights(best->weights);
    result_.tested_step = best->step;
  }
  result_.test = evaluate(*test_loader_);
  learner_->load_weights(last.weights);
  if (!journal_) return;
  journal_->add_test(state_.step, *result_.test);
  warn_if_not_finite("test", *result_.test);
}

// On rank 0; nullopt if the last weights should be tested.
std::optional<TrainState> TrainerRun::best_to_test() const {
  if (!is_first() || !validation_loader_ || state_.best_step < 0 ||
      state_.best_step == state_.step)
    return std::nullopt;
  try {
    return checkpoints_->load_step(state_.best_step);
  } catch (const IoError& error) {
    log_warn("{}; it has the best {}, so the test uses the last weights",
             error.what(), state_.best_metric);
    return std::nullopt;
  }
}

void TrainerRun::warn_if_not_finite(const char* what,
                                    const MetricValues& values) const {
  if (values.rows > 0 && !std::isfinite(values.loss))
    log_warn("the {} loss after step {} is {}, which is not finite", what,
             state_.step, values.loss);
}

void TrainerRun::finish(Ending ending) {
  const RunTotals& totals = state_.totals;
  result_.ending = ending;
  result_.steps = state_.step;
  result_.seconds = seconds_before_ + run_watch_.ms() / 1000;
  result_.train = totals.train;
  if (totals.validation.rows > 0) result_.validation = totals.validation;
  result_.skipped_steps = totals.skipped_steps;
  if (totals.epochs > 0)
    result_.seconds_per_epoch =
        totals.epoch_seconds / static_cast<double>(totals.epochs);
  const StepTimes times = times_so_far();
  if (times.batch > 0) result_.exchange_share = times.exchange / times.batch;
  TrainState end;
  learner_->save_to(end);
  result_.weights = end.weights;
  if (trace_) trace_->flush();
  if (!is_first()) return;
  write_summary();
  if (ending == Ending::kStoppedBySignal) {
    say(
        fmt::format("stopped by a signal after step {}; the checkpoint is "
                    "saved,\ncontinue with --resume --output {}",
                    state_.step, result_.folder.string()));
    return;
  }
  if (result_.test) say("test  " + describe(*result_.test));
  if (result_.skipped_steps > 0)
    say(fmt::format("{} of {} steps skipped: loss or gradients not finite",
                    result_.skipped_steps, result_.steps));
  say(
      fmt::format("{} per epoch, {:.1f} % of it waiting for the exchange\n"
                  "run folder {}",
                  seconds_text(result_.seconds_per_epoch),
                  100 * result_.exchange_share, result_.folder.string()));
}

StepTimes TrainerRun::times_so_far() const {
  StepTimes times = state_.totals.times;
  times += state_.totals.open_times;
  return times;
}

void TrainerRun::write_summary() const {
  Row row{{"ending", name_of(result_.ending)},
          {"ranks", group_.size()},
          {"epochs", state_.epoch},
          {"steps", state_.step},
          {"rows_per_epoch", sets_.train->size()}};
  row.emplace_back("skipped_steps", result_.skipped_steps);
  if (result_.train.rows > 0) append(row, "train_", result_.train);
  if (result_.validation) append(row, "validation_", *result_.validation);
  if (result_.test) {
    append(row, "test_", *result_.test);
    row.emplace_back("tested_step", result_.tested_step);
  }
  row.emplace_back("best_metric", config_.early_stopping.metric);
  row.emplace_back("best", state_.best);
  row.emplace_back("best_step", state_.best_step);
  row.emplace_back("seconds", result_.seconds);
  row.emplace_back("seconds_per_epoch", result_.seconds_per_epoch);
  row.emplace_back("exchange_share", result_.exchange_share);
  append(row, times_so_far());
  write_file_atomically(result_.folder / "summary.json", json_of(row) + "\n");
}

void TrainerRun::say(const std::string& line) {
  if (journal_) journal_->say(line);
}

RunResult run(const comm::Group& group, const RunConfig& config,
              const TrainOptions& options) {
  return TrainerRun(group, config, options).run();
}

}  // namespace sheaf::train
