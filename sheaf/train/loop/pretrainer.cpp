#include "sheaf/train/loop/pretrainer.hpp"

#include <torch/torch.h>

#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/tensor/groups/collectives.hpp"

namespace sheaf::train {
namespace {

// Keeps the first non-finite value; values are added in the order of a step.
class FirstNonFinite {
 public:
  void add(bool is_finite, const std::string& text) {
    if (cause_.text.empty() && !is_finite) cause_ = {text, place_};
    ++place_;
  }
  const NonFiniteCause& cause() const { return cause_; }

 private:
  NonFiniteCause cause_;
  int place_ = 0;
};

}  // namespace

using torch::Tensor;

Pretrainer::Pretrainer(const PretrainingConfig& config,
                       nn::Pretrainable& network, std::size_t stage,
                       const comm::Group& group)
    : config_(config),
      network_(network),
      stage_(stage),
      group_(group),
      filters_(network.filters(stage)) {
  if (config.cost == "plain")
    measure_.emplace();
  else
    shares_ = config.gain / filters_->coverage().clamp_min(1);
}

PretrainingCost Pretrainer::step(const Tensor& images, double weight) {
  const Step made = compute(images, weight);
  apply(made);
  return made.cost;
}

Pretrainer::Step Pretrainer::compute(const Tensor& images,
                                     double weight) const {
  Step step;
  const Tensor seen = seen_in(images);
  step.measure = measure_ ? *measure_ : measure_of(seen, weight);
  step.gradients = gradients_of(scaled(seen, step.measure), weight, step.cost);
  tensor::all_reduce_n(group_, {step.gradients.encoder, step.gradients.decoder},
                       {.op = comm::ReduceOp::kAvg, .name = "pre-training"})
      .wait();
  return step;
}

void Pretrainer::apply(const Step& step) {
  measure_ = step.measure;
  if (config_.update == "two_step") {
    descend(step.gradients.decoder);
    descend(step.gradients.encoder);
  } else {
    descend(step.gradients.encoder + step.gradients.decoder);
  }
}

// If images are split, the ranks of a grid exchange data during the pass, so no
// rank may return early. Values of this rank's part have lower places than sums
// over all parts.
NonFiniteCause Pretrainer::find_non_finite(const Tensor& images,
                                           double weight) const {
  const torch::NoGradGuard no_grad;
  const std::string stage = concat("stage ", stage_ + 1);
  FirstNonFinite first;
  Tensor seen = seen_in(images);
  const Measure measure = measure_ ? *measure_ : measure_of(seen, weight);
  if (images.size(0) == 0) return {};
  first.add(is_finite(images), "the input images");
  first.add(is_finite(seen),
            concat("the output of stage ", stage_, ", the one before"));
  first.add(std::isfinite(measure.scale), "the scale of the stage's input");
  seen = scaled(seen, measure);
  const Tensor weights = filters_->weight.detach();  // as in gradients_of()
  const Tensor filtered = filters_->encode(seen, weights);
  first.add(is_finite(filtered), "the output of the filters of " + stage);
  const Tensor error = decode(filtered, weights) - seen;
  const Tensor squares = error.mul(error);
  for (const Tensor& values : {squares, squares.sum()})
    first.add(is_finite(values),
              "the reconstruction by the filters of " + stage);
  const Tensor pooled = network_.pool(stage_, filtered);
  for (const Tensor& values : {pooled, pooled.sum()})
    first.add(is_finite(values), "the pooled output of " + stage);
  const torch::AutoGradMode with_gradients(true);
  PretrainingCost cost;
  const Gradients own = gradients_of(seen, weight, cost);
  first.add(are_finite({own.encoder, own.decoder}),
            "the gradient of the filters of " + stage);
  return first.cause();
}

Tensor Pretrainer::seen_in(const Tensor& images) const {
  const torch::NoGradGuard no_grad;
  return images.size(0) == 0 ? images : network_.run_to(stage_, images);
}

Pretrainer::Measure Pretrainer::measure_of(const Tensor& seen,
                                           double weight) const {
  Measure measure;
  if (config_.center) measure.mean = mean_of(seen, weight);
  measure.scale = scale_of(scaled(seen, measure), weight);
  return measure;
}

// Computed as a gradient: if images are split, the gradient of the whole mean
// on each rank is that of its own part, and averaging gives the whole.
Tensor Pretrainer::mean_of(const Tensor& seen, double weight) const {
  const torch::AutoGradMode with_gradients(true);
  const nn::LocallyConnectedOptions& options = filters_->options();
  Tensor mean =
      torch::zeros({1, options.in_channels, options.image[0], options.image[1]},
                   filters_->weight.options().requires_grad(true));
  if (seen.size(0) > 0)
    mean = torch::autograd::grad({(seen * mean).sum() * weight}, {mean})[0];
  mean = mean.detach().contiguous();
  tensor::all_reduce_n(
      group_, {mean}, {.op = comm::ReduceOp::kAvg, .name = "pre-training mean"})
      .wait();
  return mean;
}

Tensor Pretrainer::scaled(const Tensor& seen, const Measure& measure) const {
  if (seen.size(0) == 0) return seen;
  const Tensor centered = measure.mean.defined() ? seen - measure.mean : seen;
  return measure.scale == 1 ? centered : centered * measure.scale;
}

double Pretrainer::scale_of(const Tensor& seen, double weight) const {
  std::vector<double> squares{0};
  if (seen.size(0) > 0)
    squares[0] = seen.mul(seen).sum().item<double>() * weight;
  comm::all_reduce(group_, squares, {.name = "pre-training scale"}).wait();
  const nn::Pair& image = filters_->options().image;
  const double mean =
      squares[0] / group_.size() / static_cast<double>(image[0] * image[1]);
  return mean == 0 ? 1 : 1 / std::sqrt(mean);
}

Tensor Pretrainer::decode(const Tensor& filtered, const Tensor& weights) const {
  const Tensor sums = filters_->decode(filtered, weights);
  return shares_.defined() ? sums * shares_ : sums;
}

Pretrainer::Gradients Pretrainer::gradients_of(const Tensor& seen,
                                               double weight,
                                               PretrainingCost& cost) const {
  // Detached from the module's parameter, whose gradient hooks serve the main
  // training.
  const Tensor encoder = filters_->weight.detach().requires_grad_();
  const Tensor decoder = filters_->weight.detach().requires_grad_();
  if (seen.size(0) == 0)
    return {torch::zeros_like(encoder).detach(),
            torch::zeros_like(decoder).detach()};
  const Tensor filtered = filters_->encode(seen, encoder);
  const Tensor error = decode(filtered, decoder) - seen;
  const Tensor reconstruction = error.mul(error).sum() * (0.5 * weight);
  const Tensor sparsity =
      network_.pool(stage_, filtered).sum() * (config_.sparsity * weight);
  cost = {reconstruction.item<double>(), sparsity.item<double>()};
  const auto gradients =
      torch::autograd::grad({reconstruction + sparsity}, {encoder, decoder});
  return {gradients[0].contiguous(), gradients[1].contiguous()};
}

void Pretrainer::descend(const Tensor& gradient) {
  const torch::NoGradGuard no_grad;
  filters_->weight.sub_(gradient, config_.learning_rate);
  nn::normalize_filters_(filters_->weight);
}

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
