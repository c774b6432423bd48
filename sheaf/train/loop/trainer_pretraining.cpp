// Unsupervised pre-training, stage by stage, before the steps of the run.
#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/train/loop/finite.hpp"
#include "sheaf/train/loop/pretrainer.hpp"
#include "sheaf/train/loop/trainer_run.hpp"

namespace sheaf::train {

void TrainerRun::check_stack() const {
  const PretrainingConfig& wanted = config_.pretraining;
  const char* key = wanted.epochs > 0 ? "epochs" : "classifier_epochs";
  SHEAF_CHECK(stack_ || (wanted.epochs == 0 && wanted.classifier_epochs == 0),
              config_.where(concat("pretraining.", key)), "pretraining.", key,
              " is above 0, but the network '", config_.network.name,
              "' has no stages to pre-train; remove it, or set network=gb");
}

std::int64_t TrainerRun::pretraining_left() const {
  if (!stack_ || state_.step > 0) return 0;
  const auto stages = static_cast<std::int64_t>(stack_->stages());
  return (stages - state_.pretrained_stages) * config_.pretraining.epochs *
         train_loader_->batches();
}

bool TrainerRun::pretrain() {
  if (pretraining_left() == 0) return true;
  learner_->set_training(true);
  save(nullptr);  // allows resuming if stopped in the first stage
  while (pretraining_left() > 0) {
    if (!pretrain_stage()) return false;
    ++state_.pretrained_stages;
    save(nullptr);
  }
  return true;
}

bool TrainerRun::pretrain_stage() {
  const auto stage = static_cast<std::size_t>(state_.pretrained_stages);
  PretrainingConfig config = config_.pretraining;
  // Centering would reduce a batch of one image to zero.
  if (config_.global_batch < 2 || sets_.train->size() < 2)
    config.center = false;
  Pretrainer pretrainer(config, *stack_, stage, group_);
  PretrainingReport report;
  report.stage = state_.pretrained_stages;
  report.stages = static_cast<std::int64_t>(stack_->stages());
  report.step = -pretraining_left();
  for (; report.epoch < config_.pretraining.epochs; ++report.epoch) {
    Stopwatch watch, data_watch;
    PretrainingCost sum;
    std::int64_t counted = 0;
    train_loader_->set_epoch(report.epoch);
    report.batch = 0;
    for (const data::Batch& batch : *train_loader_) {
      report.data = data_watch.lap();
      if (!pretrain_batch(pretrainer, batch, report)) return false;
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
    if (journal_) journal_->end_epoch(report);
  }
  return true;
}

bool TrainerRun::pretrain_batch(Pretrainer& pretrainer,
                                const data::Batch& batch,
                                PretrainingReport& report) {
  Stopwatch watch;
  const auto [images, weight] = learner_->input_of(batch);
  const Pretrainer::Step step = pretrainer.compute(images, weight);
  const PretrainingCost& cost = step.cost;
  const bool is_finite =
      !checks_finite() ||
      (std::isfinite(cost.reconstruction + cost.sparsity +
                     step.measure.scale) &&
       are_finite({step.gradients.encoder, step.gradients.decoder}));
  std::vector<double> sums{cost.reconstruction, cost.sparsity,
                           stop_.has_come() ? 1.0 : 0.0, is_finite ? 0.0 : 1.0};
  comm::all_reduce(group_, sums, {.name = "pre-training cost"}).wait();
  report.is_skipped = sums[3] > 0;
  if (!report.is_skipped)
    pretrainer.apply(step);
  else if (config_.on_non_finite == "stop")
    stop_as_not_finite(
        concat("the cost or a gradient of stage ", report.stage + 1, ", epoch ",
               report.epoch + 1, ", batch ", report.batch + 1,
               " of pre-training is not finite; the filters were not "
               "updated"),
        pretrainer.find_non_finite(images, weight));
  else
    ++state_.totals.skipped_steps;
  report.reconstruction = sums[0] / group_.size();
  report.sparsity = sums[1] / group_.size();
  report.rows = batch.global_size;
  report.duration = watch.lap() + report.data;
  if (journal_) journal_->add(report);
  ++report.batch;
  ++report.step;
  return sums[2] == 0;
}

void TrainerRun::choose_learners() {
  if (!stack_) return;
  const bool is_alone = state_.epoch < config_.pretraining.classifier_epochs;
  stack_->train_classifier_alone(is_alone);
  learner_->train_only(is_alone ? stack_->classifier_parameters()
                                : std::vector<torch::Tensor>{});
  normalizes_filters_ = config_.pretraining.normalize_filters && !is_alone;
}

}  // namespace sheaf::train
