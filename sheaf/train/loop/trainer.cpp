#include "sheaf/train/loop/trainer.hpp"

#include <fmt/format.h>

#include <memory>
#include <ostream>

#include "sheaf/base/units.hpp"
#include "sheaf/train/files/from_root.hpp"
#include "sheaf/train/loop/evaluation.hpp"
#include "sheaf/train/loop/pretrainer.hpp"
#include "sheaf/train/loop/resumption.hpp"
#include "sheaf/train/loop/run_output.hpp"
#include "sheaf/train/loop/run_saver.hpp"

namespace sheaf::train {
namespace {

std::string seconds_text(double seconds) {
  return format_duration(
      std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
}

// A run from its state, new or resumed, to its end. The folder is opened last,
// so that invalid settings, data or networks leave none behind.
class TrainerRun {
 public:
  // What the run needs from its start on. The objects must outlive it.
  struct Start {
    TrainingSession& session;
    const StopSignal& stop;
    RunClock clock;
    RunFolder& folder;   // of a resumed run
    TraceWriter* trace;  // null: none
  };
  TrainerRun(const Start& start, const TrainOptions& options, TrainState state);

  void print(const std::string& line) { output_.print(line); }
  RunResult run();

 private:
  static TrainState for_session(TrainState state,
                                const TrainingSession& session);
  Ending train();
  bool train_epoch();  // false: a signal requested a stop
  bool train_batch(data::Batch& batch, double data_ms, Metrics& metrics);
  // Selects the parameters to train: the classifier only, or all.
  void choose_trained();
  void end_epoch(const Metrics& metrics);
  void test();
  void finish(Ending ending);
  void say_ending();

  TrainingSession& session_;
  const RunConfig& config_;
  TraceWriter* trace_;
  const StopSignal& stop_;
  TrainState state_;
  RunClock clock_;
  RunOutput output_;
  NonFiniteGuard guard_;
  RunSaver saver_;
  RunResult result_;
  bool normalizes_filters_ = false;  // after each step
};

TrainerRun::TrainerRun(const Start& start, const TrainOptions& options,
                       TrainState state)
    : session_(start.session),
      config_(session_.config()),
      trace_(start.trace),
      stop_(start.stop),
      state_(for_session(std::move(state), session_)),
      clock_(start.clock),
      output_(session_, options, state_, start.folder, trace_),
      guard_(session_, state_, output_.checkpoints()),
      saver_({session_, state_, clock_, output_, guard_, trace_}) {
  clock_.resume_at(state_.totals.seconds);
  result_.folder = output_.folder();
  output_.open_journal(options,
                       state_.step - pretraining_steps_left(session_, state_));
}

TrainState TrainerRun::for_session(TrainState state,
                                   const TrainingSession& session) {
  state.seed = session.config().seed;
  state.global_batch = session.config().global_batch;
  state.examples = session.sets().train->size();
  state.class_names = session.sets().train->class_names();
  return state;
}

RunResult TrainerRun::run() {
  const Ending ending = train();
  if (ending != Ending::kStoppedBySignal) test();
  finish(ending);
  return result_;
}

Ending TrainerRun::train() {
  PretrainingPhase pretraining(
      {session_, state_, clock_, output_, guard_, trace_}, saver_, stop_);
  if (!pretraining.run()) return Ending::kStoppedBySignal;
  while (state_.epoch < config_.epochs && !state_.has_stopped_early)
    if (!train_epoch()) return Ending::kStoppedBySignal;
  return state_.has_stopped_early ? Ending::kStoppedEarly : Ending::kFinished;
}

bool TrainerRun::train_epoch() {
  Stopwatch data_watch;
  clock_.begin_epoch(state_.totals.open_epoch_seconds);
  Metrics metrics(session_.classes());
  if (session_.is_first() && !state_.metric_sums.empty())
    metrics.go_on_with(state_.metric_sums);
  state_.metric_sums.clear();
  session_.learner().set_training(true);
  session_.learner().share_weights();
  choose_trained();
  data::Loader& loader = *session_.loaders().train;
  loader.set_epoch(state_.epoch);
  loader.start_at(state_.batch);
  for (data::Batch& batch : loader) {
    if (!train_batch(batch, data_watch.lap(), metrics)) return false;
    data_watch.lap();
  }
  metrics.sum_over(session_.group());
  end_epoch(metrics);
  return true;
}

void TrainerRun::choose_trained() {
  nn::Pretrainable* const stack = session_.stack();
  if (!stack) return;
  const bool is_alone = state_.epoch < config_.pretraining.classifier_epochs;
  stack->train_classifier_alone(is_alone);
  session_.learner().train_only(is_alone ? stack->classifier_parameters()
                                         : std::vector<torch::Tensor>{});
  normalizes_filters_ = config_.pretraining.normalize_filters && !is_alone;
}

bool TrainerRun::train_batch(data::Batch& batch, double data_ms,
                             Metrics& metrics) {
  Stopwatch watch;
  StepResult done = session_.step(
      batch,
      {.step = state_.step, .wants_stop = [this] { return stop_.has_come(); }},
      metrics);
  if (!done.is_applied) guard_.refuse_step(batch);
  if (done.is_applied && normalizes_filters_)
    nn::normalize_filters(*session_.stack());
  done.times.data = data_ms;
  done.times.batch = watch.lap() + data_ms;
  state_.totals.open_times += done.times;
  output_.report({state_.epoch, state_.batch, state_.step, done.totals,
                  session_.classes() > 0, done.learning_rate, done.times,
                  !done.is_applied});
  ++state_.step;
  ++state_.batch;
  const std::int64_t check = config_.check_weights_every;
  if (check > 0 && state_.step % check == 0)
    session_.learner().strategy().check_weights();
  const std::int64_t every = config_.output.checkpoint_every;
  // The end of the epoch saves a checkpoint itself, with the metric.
  const bool is_last = state_.batch == session_.loaders().train->batches();
  const bool is_due = every > 0 && state_.step % every == 0 && !is_last;
  if (is_due || (done.must_stop && !is_last)) saver_.save(&metrics);
  return !done.must_stop || is_last;
}

void TrainerRun::end_epoch(const Metrics& metrics) {
  RunTotals& totals = state_.totals;
  EpochReport report;
  report.epoch = state_.epoch;
  report.step = state_.step - 1;
  report.train = metrics.values();
  report.learning_rate = session_.schedule().rate(state_.step - 1);
  report.times = totals.open_times;
  report.skipped_steps = totals.open_skipped;
  if (auto& loader = session_.loaders().validation)
    report.validation = evaluate(session_, *loader);
  if (output_.journal() && report.validation)
    warn_if_not_finite("validation", state_.step, *report.validation);
  report.is_best =
      judge_epoch(session_.group(), config_.early_stopping,
                  report.validation ? *report.validation : report.train,
                  report.validation.has_value(), state_);
  const double seconds = clock_.epoch_seconds();
  report.duration = 1000 * seconds;
  totals.train = report.train;
  totals.validation = report.validation.value_or(MetricValues{});
  totals.epoch_seconds += seconds;
  totals.times += totals.open_times;
  totals.open_times = {};
  totals.open_skipped = 0;
  ++totals.epochs;
  if (Journal* journal = output_.journal()) journal->add(report);
  ++state_.epoch;
  state_.batch = 0;
  saver_.save(nullptr);
  if (state_.has_stopped_early)
    print(fmt::format("stopped early: no better {} for {} epochs",
                      config_.early_stopping.metric, state_.epochs_since_best));
}

void TrainerRun::test() {
  const auto tested = test_best(session_, state_, output_.checkpoints());
  if (!tested) return;
  result_.tested_step = tested->step;
  result_.test = tested->values;
  if (!output_.journal()) return;
  output_.journal()->add_test(state_.step, tested->values);
  warn_if_not_finite("test", state_.step, tested->values);
}

void TrainerRun::finish(Ending ending) {
  const RunTotals& totals = state_.totals;
  result_.ending = ending;
  result_.steps = state_.step;
  result_.seconds = clock_.seconds();
  result_.train = totals.train;
  if (totals.validation.rows > 0) result_.validation = totals.validation;
  result_.skipped_steps = totals.skipped_steps;
  if (totals.epochs > 0)
    result_.seconds_per_epoch =
        totals.epoch_seconds / static_cast<double>(totals.epochs);
  const StepTimes times = times_so_far(totals);
  if (times.batch > 0) result_.exchange_share = times.exchange / times.batch;
  TrainState end;
  session_.learner().save_to(end);
  result_.weights = end.weights;
  if (trace_) trace_->flush();
  if (!session_.is_first()) return;
  output_.sync();
  write_summary(session_, state_, result_);
  say_ending();
}

void TrainerRun::say_ending() {
  if (result_.ending == Ending::kStoppedBySignal) {
    print(
        fmt::format("stopped by a signal after step {}; the checkpoint is "
                    "saved,\ncontinue with --resume --output {}",
                    state_.step, result_.folder.string()));
    return;
  }
  if (result_.test) print("test  " + describe(*result_.test));
  if (result_.skipped_steps > 0)
    print(fmt::format("{} of {} steps skipped: loss or gradients not finite",
                      result_.skipped_steps, result_.steps));
  print(
      fmt::format("{} per epoch, {:.1f} % of it waiting for the exchange\n"
                  "run folder {}",
                  seconds_text(result_.seconds_per_epoch),
                  100 * result_.exchange_share, result_.folder.string()));
}

// The result of a run that was finished before.
RunResult finished_result(const TrainingSession& session,
                          const TrainOptions& options, const ResumedRun& run) {
  RunResult result = read_summary(session.group(), run.place);
  result.steps = run.state.step;
  result.skipped_steps = run.state.totals.skipped_steps;
  TrainState end;
  session.learner().save_to(end);
  result.weights = end.weights;
  if (session.is_first() && options.out)
    *options.out << "the run in " << result.folder.string() << " has "
                 << name_of(result.ending) << " after epoch " << run.state.epoch
                 << " and is left unchanged; increase epochs to "
                 << "train it further" << std::endl;
  return result;
}

// Collective, so that rank 0 writes nothing if another rank fails.
void load(TrainingSession& session, const TrainState& state) {
  from_all(session.group(), /*numbers=*/0, [&] {
    if (!state.weights.empty()) session.learner().load_from(state);
    return std::vector<std::int64_t>{};
  });
}

}  // namespace

std::string_view name_of(Ending ending) noexcept {
  switch (ending) {
    case Ending::kStoppedEarly:
      return "stopped early";
    case Ending::kStoppedBySignal:
      return "stopped by a signal";
    default:
      return "finished";
  }
}

RunResult run(const comm::Group& group, const RunConfig& config,
              const TrainOptions& options) {
  const StopSignal stop;
  const RunClock clock;
  TrainingSession session(group, config, {options.model, options.data});
  ResumedRun resumed;
  if (options.is_resumed) resumed = resume(session, options);
  std::unique_ptr<TraceWriter> trace;
  if (config.output.trace && !resumed.has_finished)
    trace = std::make_unique<TraceWriter>(TraceOptions{.rank = group.rank()});
  session.start(trace.get());
  load(session, resumed.state);
  if (resumed.has_finished) return finished_result(session, options, resumed);
  TrainerRun trainer({session, stop, clock, resumed.folder, trace.get()},
                     options, resumed.state);
  if (options.is_resumed)
    for (const std::string& line : describe(resumed)) trainer.print(line);
  return trainer.run();
}

}  // namespace sheaf::train
