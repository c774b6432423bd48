#include "sheaf/train/step/learner.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/data/dataset/random.hpp"
#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/parallel/common/gradients.hpp"
#include "sheaf/tensor/groups/scope.hpp"
#include "sheaf/train/step/curvature.hpp"
#include "sheaf/train/step/non_finite.hpp"

namespace sheaf::train {

using torch::Tensor;

// Stored among the tensors of the exchange.
constexpr const char* kLossScale = "loss_scale";

Learner::Learner(const RunConfig& config, Model model, const comm::Group& group,
                 TraceWriter* trace)
    : config_(config),
      group_(group),
      trace_(trace),
      network_(config, std::move(model), group),
      strategy_(make_strategy(config, network_.module_ptr(), group, trace)),
      cutter_(config, network_, *strategy_),
      loss_(config.loss, group.rank(), *strategy_),
      parameters_(config, network_.module()) {
  if (network_.use_plan(config, group)) scale_.emplace();
}

torch::TensorOptions Learner::options() const {
  return torch::TensorOptions(network_.type()).device(network_.device());
}

// libtorch's layers reject a single value per channel before they see that
// other ranks have more.
Tensor Learner::output_of(const Piece& piece) const {
  try {
    return network_.forward(piece.data);
  } catch (const c10::Error& error) {
    const std::string text = one_line(error);
    if (text.find("more than 1 value per channel") == text.npos) throw;
    throw UsageError(concat(
        "rank ", group_.rank(), " has ", piece.rows(),
        " row to process at once, too few for batch normalization: ", text,
        "; choose global_batch, accumulate, shares or data.limit so that no "
        "rank has a single row"));
  }
}

Tensor Learner::forward(const Piece& piece, Tensor& output) {
  const Autocast autocast = network_.autocast();
  {
    const tensor::Scope phase("sheaf::phase forward");
    output = strategy_->forward([&] {
      const auto scope = network_.plan_scope();
      return output_of(piece);
    });
  }
  const tensor::Scope phase("sheaf::phase loss");
  auto scope = network_.plan_scope();
  const Tensor sum = loss_.sum(output, piece.target);
  scope.reset();
  return parameters_.with_resting(sum, options());
}

void Learner::backward(Tensor loss) const {
  const TraceSpan span(trace_, "backward", "train");
  const tensor::Scope phase("sheaf::phase backward");
  if (scale_) loss = scale_->scaled(loss);
  loss.backward();
}

Totals Learner::add_to(Metrics& metrics, const Piece& piece,
                       const Tensor& output, double loss_sum) const {
  const Tensor whole = strategy_->output_for_metrics(output);
  if (!strategy_->counts_samples()) return {};
  return metrics.add(loss_sum / static_cast<double>(piece.rows()), whole,
                     piece.target);
}

void Learner::learn(const Piece& piece, Computed& done, Metrics& metrics) {
  Stopwatch watch;
  Tensor output, sum, loss;
  {
    const TraceSpan span(trace_, "forward", "train");
    if (piece.rows() == 0 && !config_.parallel.sync_batchnorm) {
      strategy_->forward_nothing();
      sum = parameters_.zero_loss(options());
    } else {
      sum = forward(piece, output);
    }
    const tensor::Scope phase("sheaf::phase loss");
    loss = sum * piece.weight;
  }
  done.times.forward += watch.lap();
  backward(loss);
  done.times.backward += watch.lap();
  if (piece.rows() == 0) return;
  const auto value = sum.item<double>();
  has_finite_losses_ = has_finite_losses_ && std::isfinite(value);
  done.totals += add_to(metrics, piece, output.detach(), value);
}

void Learner::take_exchange(StepTimes& times) {
  if (!strategy_->has_exchange()) return;
  const parallel::ExchangeStats stats = strategy_->take_stats();
  times.exchange = stats.wait_ms;
  times.gradient = stats.gradient_ms;
  times.has_factors = strategy_->exchanges_factors();
  times.exchange_busy = stats.exchange_ms;
  times.bytes = stats.bytes;
  times.backward =
      std::max(0.0, times.backward - stats.wait_ms - stats.gradient_ms);
}

std::uint64_t Learner::seed_of(std::int64_t step) const {
  return data::Random(static_cast<std::uint64_t>(config_.seed))
      .derive(static_cast<std::uint64_t>(step))
      .derive(static_cast<std::uint64_t>(strategy_->samples().rank()))
      .next();
}

Learner::Computed Learner::train_step(const data::Batch& batch,
                                      std::int64_t step, double learning_rate,
                                      Metrics& metrics) {
  Computed done = compute(batch, step, metrics);
  apply(learning_rate, done.times);
  return done;
}

Learner::Computed Learner::compute(const data::Batch& batch, std::int64_t step,
                                   Metrics& metrics) {
  Computed done;
  torch::manual_seed(seed_of(step));
  has_finite_losses_ = true;
  parallel::forget_gradients(network_.module());
  const std::int64_t pieces = cutter_.pieces_of(batch);
  for (std::int64_t i = 0; i < pieces; ++i) {
    std::optional<parallel::Strategy::NoSync> guard;
    if (i + 1 < pieces) strategy_->stop_sync(guard);
    learn(cutter_.piece(batch, i), done, metrics);
  }
  take_exchange(done.times);
  parameters_.forget_resting_gradients();
  return done;
}

bool Learner::apply(double learning_rate, StepTimes& times) {
  Stopwatch watch;
  const TraceSpan span(trace_, "optimizer", "train");
  const bool is_least = scale_ && scale_->is_least();
  const bool is_good =
      !scale_ || scale_->unscale(parameters_.tensors(), group_);
  if (is_good) {
    clip();
    parameters_.step(learning_rate);
  }
  times.optimizer = watch.lap();
  return is_good || !is_least;
}

void Learner::clip() {
  if (config_.clip_norm == 0) return;
  const tensor::Scope phase("sheaf::phase clip");
  strategy_->clip_gradients(config_.clip_norm);
}

// Scaled gradients may overflow: apply() then detects it and reduces the scale.
bool Learner::is_step_finite() const {
  const tensor::Scope phase("sheaf::phase check");
  return has_finite_losses_ &&
         (scale_.has_value() || are_finite(parameters_.gradients()));
}

NonFiniteCause Learner::find_non_finite(const data::Batch& batch,
                                        std::int64_t step) {
  return find_non_finite_value(
      path(), batch,
      {.seed = seed_of(step),
       .scale = scale_ ? &*scale_ : nullptr,
       .runs_empty_pieces = config_.parallel.sync_batchnorm});
}

std::pair<Tensor, double> Learner::input_of(const data::Batch& batch) const {
  const Piece piece = cutter_.whole(batch);
  return {piece.data, piece.weight};
}

std::vector<spatial::ExchangeNote> Learner::notes_of_step(
    const data::Batch& batch) {
  std::vector<spatial::ExchangeNote> notes;
  spatial::Tiles::WeightNames names;
  for (const auto& [name, tensor] : parameters_.named())
    names[tensor.unsafeGetTensorImpl()] = name;
  strategy_->listen([&](const auto& note) { notes.push_back(note); },
                    std::move(names));
  Metrics metrics(0);
  train_step(batch, 0, 0, metrics);
  strategy_->listen(nullptr);
  return notes;
}

std::vector<Curvature> Learner::curvature(const data::Batch& batch,
                                          const std::vector<Tensor>& weights,
                                          int samples) {
  SHEAF_CHECK(!strategy_->exchanges_in_layers() &&
                  (!config_.parallel.sync_batchnorm || group_.size() == 1),
              "the curvature of the loss is available only for networks whose "
              "layers do not communicate; remove strategy: spatial and "
              "sync_batchnorm, or record one rank");
  const auto random = data::Random(static_cast<std::uint64_t>(config_.seed))
                          .derive(static_cast<std::uint64_t>(group_.rank()));
  return mean_curvature(loss_curvature(path(), batch, weights,
                                       {.samples = samples, .random = random}),
                        group_);
}

void Learner::evaluate(const data::Batch& batch, Metrics& metrics) {
  if (batch.size() == 0) return;
  const torch::NoGradGuard no_grad;
  const Autocast autocast = network_.autocast();
  const Piece piece = cutter_.whole(batch);
  const auto scope = network_.plan_scope();
  const Tensor output = network_.forward(piece.data);
  add_to(metrics, piece, output,
         loss_.sum(output, piece.target).item<double>());
}

// Gathers the tensors of which ranks train only their own positions. The
// optimizer's tensors are named field/parameter.
void Learner::save_to(TrainState& state) const {
  state.weights = tensor::state_dict(network_.module());
  state.optimizer = parameters_.state();
  const std::map<std::string, Tensor> by_name(parameters_.named().begin(),
                                              parameters_.named().end());
  for (NamedTensors* list : {&state.weights, &state.optimizer})
    for (auto& [name, tensor] : *list) {
      const auto found = by_name.find(
          list == &state.weights ? name : name.substr(name.find('/') + 1));
      if (found != by_name.end() && tensor.sizes() == found->second.sizes())
        tensor = strategy_->gather_owned(found->second, tensor);
    }
}

void Learner::save_share_to(TrainState& state, int shard, int shards) const {
  save_to(state);
  const auto parameters = network_.module().named_parameters();
  NamedTensors alike, buffers;
  for (auto& entry : state.weights)
    (parameters.contains(entry.first) ? alike : buffers).push_back(entry);
  state.weights = share_of(alike, shard, shards);
  if (shard == 0)
    state.weights.insert(state.weights.end(), buffers.begin(), buffers.end());
  state.optimizer = share_of(state.optimizer, shard, shards);
}

void Learner::load_weights(const NamedTensors& weights) {
  tensor::load_state_dict(network_.module(), weights);
}

void Learner::load_from(const TrainState& state) {
  load_weights(state.weights);
  parameters_.load_state(state.optimizer);
  strategy_->load_state(state.exchange);
  for (const auto& [name, tensor] : state.exchange)
    if (scale_ && name == kLossScale) scale_->load(tensor);
}

void Learner::gather_exchange(TrainState& state) const {
  if (strategy_->has_exchange()) state.exchange = strategy_->gather_state();
  if (!scale_) return;
  if (!strategy_->has_exchange()) state.exchange.clear();
  state.exchange.emplace_back(kLossScale, scale_->state());
}

void Learner::share_weights() {
  if (config_.has_unlike_devices())
    parallel::broadcast_tensors(group_, parameters_.named());
  strategy_->share_buffers();
}

}  // namespace sheaf::train
