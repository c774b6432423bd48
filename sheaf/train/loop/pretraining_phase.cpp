#include "sheaf/train/loop/pretraining_phase.hpp"

#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"

namespace sheaf::train {

std::int64_t pretraining_steps_left(const TrainingSession& session,
                                    const TrainState& state) {
  if (!session.stack() || state.step > 0) return 0;
  const auto stages = static_cast<std::int64_t>(session.stack()->stages());
  return (stages - state.pretrained_stages) *
         session.config().pretraining.epochs *
         session.loaders().train->batches();
}

bool PretrainingPhase::run() {
  if (pretraining_steps_left(run_.session, run_.state) == 0) return true;
  run_.session.learner().set_training(true);
  saver_.save(nullptr);  // allows resuming if stopped in the first stage
  while (pretraining_steps_left(run_.session, run_.state) > 0) {
    if (!train_stage()) return false;
    ++run_.state.pretrained_stages;
    saver_.save(nullptr);
  }
  return true;
}

bool PretrainingPhase::train_stage() {
  const RunConfig& run_config = run_.session.config();
  nn::Pretrainable& stack = *run_.session.stack();
  PretrainingConfig config = run_config.pretraining;
  // Centering would reduce a batch of one image to zero.
  if (run_config.global_batch < 2 || run_.session.sets().train->size() < 2)
    config.center = false;
  Pretrainer pretrainer(config, stack,
                        static_cast<std::size_t>(run_.state.pretrained_stages),
                        run_.session.group());
  PretrainingReport report;
  report.stage = run_.state.pretrained_stages;
  report.stages = static_cast<std::int64_t>(stack.stages());
  report.step = -pretraining_steps_left(run_.session, run_.state);
  for (; report.epoch < config.epochs; ++report.epoch)
    if (!train_epoch(pretrainer, report)) return false;
  return true;
}

bool PretrainingPhase::train_epoch(Pretrainer& pretrainer,
                                   PretrainingReport& report) {
  data::Loader& loader = *run_.session.loaders().train;
  Stopwatch watch, data_watch;
  PretrainingCost sum;
  std::int64_t counted = 0;
  loader.set_epoch(report.epoch);
  report.batch = 0;
  for (const data::Batch& batch : loader) {
    report.data = data_watch.lap();
    if (!train_batch(pretrainer, batch, report)) return false;
    if (!report.is_skipped) {
      sum.reconstruction += report.reconstruction;
      sum.sparsity += report.sparsity;
      ++counted;
    }
    data_watch.lap();
  }
  const auto batches = static_cast<double>(counted);
  report.is_skipped = counted == 0;
  report.reconstruction = sum.reconstruction / batches;
  report.sparsity = sum.sparsity / batches;
  report.duration = watch.lap();
  if (Journal* journal = run_.output.journal()) journal->end_epoch(report);
  return true;
}

bool PretrainingPhase::is_finite_here(const Pretrainer::Step& step) const {
  return !run_.session.checks_finite() ||
         (std::isfinite(step.cost.reconstruction + step.cost.sparsity +
                        step.measure.scale) &&
          are_finite({step.gradients.encoder, step.gradients.decoder}));
}

// Returns false if a rank received a signal.
bool PretrainingPhase::train_batch(Pretrainer& pretrainer,
                                   const data::Batch& batch,
                                   PretrainingReport& report) {
  Stopwatch watch;
  const comm::Group& group = run_.session.group();
  const auto [images, weight] = run_.session.learner().input_of(batch);
  const Pretrainer::Step step = pretrainer.compute(images, weight);
  std::vector<double> sums{step.cost.reconstruction, step.cost.sparsity,
                           stop_.has_come() ? 1.0 : 0.0,
                           is_finite_here(step) ? 0.0 : 1.0};
  comm::all_reduce(group, sums, {.name = "pre-training cost"}).wait();
  report.is_skipped = sums[3] > 0;
  if (!report.is_skipped)
    pretrainer.apply(step);
  else if (run_.session.config().on_non_finite == "stop")
    stop(report, pretrainer.find_non_finite(images, weight));
  else
    ++run_.state.totals.skipped_steps;
  report.reconstruction = sums[0] / group.size();
  report.sparsity = sums[1] / group.size();
  report.rows = batch.global_size;
  report.duration = watch.lap() + report.data;
  if (Journal* journal = run_.output.journal()) journal->add(report);
  ++report.batch;
  ++report.step;
  return sums[2] == 0;
}

void PretrainingPhase::stop(const PretrainingReport& report,
                            const NonFiniteCause& cause) const {
  run_.guard.stop(
      concat("the cost or a gradient of stage ", report.stage + 1, ", epoch ",
             report.epoch + 1, ", batch ", report.batch + 1,
             " of pre-training is not finite; the filters were not updated"),
      cause);
}

}  // namespace sheaf::train
