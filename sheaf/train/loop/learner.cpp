#include "sheaf/train/loop/learner.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "sheaf/base/error.hpp"
#include "sheaf/base/error_text.hpp"
#include "sheaf/data/dataset/random.hpp"
#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/parallel/common/gradients.hpp"
#include "sheaf/parallel/common/sync_batch_norm.hpp"
#include "sheaf/spatial/split/split_tensor.hpp"
#include "sheaf/tensor/groups/collectives.hpp"
#include "sheaf/tensor/groups/scope.hpp"
#include "sheaf/train/setup/autocast.hpp"
#include "sheaf/train/setup/device_setup.hpp"
#include "sheaf/train/setup/fit_check.hpp"

namespace sheaf::train {
namespace {

namespace F = torch::nn::functional;
using torch::Tensor;

// The parameters of a module, each tensor once even if it has several names.
NamedTensors distinct_parameters(const torch::nn::Module& module) {
  NamedTensors result;
  std::set<const void*> seen;
  for (const auto& entry : module.named_parameters())
    if (seen.insert(entry.value().unsafeGetTensorImpl()).second)
      result.emplace_back(entry.key(), entry.value());
  return result;
}

std::vector<Tensor> tensors_of(const NamedTensors& named) {
  std::vector<Tensor> result;
  for (const auto& [name, tensor] : named) result.push_back(tensor);
  return result;
}

std::vector<std::int64_t> with_rows(std::vector<std::int64_t> shape,
                                    std::int64_t rows) {
  shape.insert(shape.begin(), rows);
  return shape;
}

}  // namespace

comm::Group sample_ranks(const RunConfig& config, const comm::Group& group) {
  if (config.parallel.strategy != "spatial") return group;
  const int places = halo::Grid::parse(config.parallel.grid).ranks();
  SHEAF_CHECK(group.size() % places == 0, config.where("parallel.grid"),
              "parallel.grid ", config.parallel.grid, " has ", places,
              " places, but there are ", group.size(),
              " ranks; start a multiple of that, such as -n ", places);
  return group.split(group.rank() % places, group.rank());
}

Learner::Learner(const RunConfig& config, Model model, const comm::Group& group,
                 TraceWriter* trace)
    : config_(config),
      model_(std::move(model)),
      group_(group),
      trace_(trace),
      device_(device_of_rank(config, group)),
      type_(config.precision == "f64" ? torch::kDouble : torch::kFloat),
      samples_(sample_ranks(config, group)) {
  model_.module->to(device_, type_);
  if (config.parallel.sync_batchnorm)
    parallel::use_sync_batch_norm(*model_.module, group_);
  make_parallel(trace);
  parameters_ = distinct_parameters(*model_.module);
  SHEAF_CHECK(!parameters_.empty(), config.where("network"),
              "the network has no parameters to train");
  optimizer_ = make_optimizer(config.optimizer, tensors_of(parameters_));
  if (!config.plan.empty()) use_plan();
  infinite_buffers_ = find_infinite_buffers();
}

Tensor Learner::images_of(const data::Batch& batch, std::int64_t first,
                          std::int64_t rows) const {
  Tensor data = batch.data.narrow(0, first, rows);
  if (data.is_floating_point()) data = data.to(type_);
  data = data.to(device_);
  if (!spatial_) return data;
  if (batch.whole.empty()) return spatial_->cut(data);
  return spatial_->from_part(data, with_rows(batch.whole, rows));
}

Tensor Learner::targets_of(const data::Batch& batch, std::int64_t first,
                           std::int64_t rows) const {
  const Tensor target = batch.target.narrow(0, first, rows).to(device_);
  if (!spatial_ || batch.whole_target.empty()) return target;
  const auto image = static_cast<std::int64_t>(batch.whole.size()) - 1;
  return spatial::from_part(target, spatial_->tiles(),
                            with_rows(batch.whole_target, rows),
                            static_cast<int>(target.dim() - image));
}

// Gradients are averaged over ranks, so a row has `ranks` times its share of
// the global batch as weight.
Learner::Piece Learner::piece_of(const data::Batch& batch, std::int64_t first,
                                 std::int64_t rows) const {
  const tensor::Scope phase("sheaf::phase data");
  const double ranks = parallel_ ? samples_.size() : 1;
  return {images_of(batch, first, rows), targets_of(batch, first, rows),
          ranks / static_cast<double>(batch.global_size)};
}

// Every rank splits its share into the same number of pieces, none of which is
// empty unless the share is.
std::int64_t Learner::parts_of(const data::Batch& batch) const {
  return std::clamp<std::int64_t>(batch.global_size / samples_.size(), 1,
                                  config_.accumulate);
}

Tensor Learner::loss_sum(const Tensor& output, const Tensor& given) const {
  // The network's output for split images need not be split.
  const bool is_apart = spatial::is_split(given) && !spatial::is_split(output);
  const Tensor target = is_apart ? spatial::gather(given) : given;
  if (!spatial_) check_shapes(config_.loss, output, target);
  if (config_.loss == "mse") {
    Tensor wanted = target.to(output.scalar_type());
    if (wanted.sizes() != output.sizes()) wanted = wanted.view_as(output);
    const std::int64_t rows = std::max<std::int64_t>(1, output.size(0));
    const double size = static_cast<double>(output.numel() / rows);
    return torch::mse_loss(output, wanted, torch::Reduction::Sum) /
           std::max(1.0, size);
  }
  // Sums are computed in f32 if the network computes in lower precision.
  const bool is_low = output.scalar_type() == torch::kBFloat16 ||
                      output.scalar_type() == torch::kHalf;
  const Tensor exact = is_low ? output.to(torch::kFloat) : output;
  const Tensor wanted = target.to(
      target.is_floating_point() ? exact.scalar_type() : torch::kLong);
  try {
    if (config_.loss == "nll")
      return torch::nll_loss(exact, wanted, {}, torch::Reduction::Sum);
    return F::cross_entropy(
        exact, wanted, F::CrossEntropyFuncOptions().reduction(torch::kSum));
  } catch (const c10::IndexError& error) {
    throw UsageError(concat("rank ", group_.rank(), ": a label is not a class ",
                            "of the network, which has ", output.size(1),
                            " outputs: ", one_line(error),
                            "; correct the labels, or give the network's last "
                            "layer more outputs"));
  }
}

// libtorch's layers reject a single value per channel before they see that
// other ranks have more.
Tensor Learner::output_of(const Piece& piece) {
  try {
    return model_.forward(piece.data);
  } catch (const c10::Error& error) {
    const std::string text = one_line(error);
    if (text.find("more than 1 value per channel") == text.npos) throw;
    throw UsageError(concat(
        "rank ", group_.rank(), " has ", piece.target.size(0),
        " row to process at once, too few for batch normalization: ", text,
        "; choose global_batch, accumulate, shares or data.limit so that no "
        "rank has a single row"));
  }
}

Tensor Learner::forward(const Piece& piece, Tensor& output) {
  const Autocast autocast(device_.type(), config_.precision == "bf16");
  {
    const tensor::Scope phase("sheaf::phase forward");
    if (parallel_) parallel_->before_forward();
    {
      const auto scope = plan_scope();
      output = output_of(piece);
    }
    if (parallel_) parallel_->after_forward({&output});
  }
  const tensor::Scope phase("sheaf::phase loss");
  auto scope = plan_scope();
  const Tensor sum = loss_sum(output, piece.target);
  scope.reset();
  return resting_.empty() ? sum : sum + nothing(resting_);
}

// Ranks that process the same images are counted once.
void Learner::add_to(Metrics& metrics, const Piece& piece, const Tensor& output,
                     double loss_sum) const {
  // Only outputs with one row of classes per image are evaluated.
  const bool is_gathered = spatial::is_split(output) && output.dim() == 2;
  const Tensor whole = is_gathered ? spatial::gather(output) : output;
  if (spatial_ && spatial_->tiles()->rank() > 0) return;
  metrics.add(loss_sum / static_cast<double>(piece.target.size(0)), whole,
              piece.target);
}

// A zero loss that depends on the parameters, so that the exchange gets all of
// them: for a rank without examples, or parameters that are not trained.
Tensor Learner::nothing(const std::vector<Tensor>& parameters) const {
  Tensor sum = torch::zeros({}, torch::TensorOptions(type_).device(device_));
  for (const Tensor& parameter : parameters)
    if (parameter.requires_grad()) sum = sum + parameter.sum() * 0;
  return sum;
}

void Learner::learn(const Piece& piece, StepTimes& times, Metrics& metrics) {
  Stopwatch watch;
  Tensor output, sum, loss;
  const std::int64_t rows = piece.target.size(0);
  {
    const TraceSpan span(trace_, "forward", "train");
    if (rows == 0 && !config_.parallel.sync_batchnorm) {
      if (parallel_) parallel_->before_forward();
      if (parallel_) parallel_->after_forward({});
      sum = nothing(tensors_of(parameters_));
    } else {
      sum = forward(piece, output);
    }
    const tensor::Scope phase("sheaf::phase loss");
    loss = sum * piece.weight;
  }
  times.forward += watch.lap();
  {
    const TraceSpan span(trace_, "backward", "train");
    const tensor::Scope phase("sheaf::phase backward");
    if (scale_) loss = scale_->scaled(loss);
    loss.backward();
  }
  times.backward += watch.lap();
  if (rows == 0) return;
  const auto value = sum.item<double>();
  has_finite_losses_ = has_finite_losses_ && std::isfinite(value);
  add_to(metrics, piece, output.detach(), value);
}

void Learner::take_exchange(StepTimes& times) {
  if (!parallel_) return;
  const parallel::ExchangeStats stats = parallel_->stats();
  parallel_->reset_stats();
  times.exchange = stats.wait_ms;
  times.gradient = stats.gradient_ms;
  times.has_factors =
      dynamic_cast<parallel::DadParallelCore*>(parallel_.get()) != nullptr;
  times.exchange_busy = stats.exchange_ms;
  times.bytes = stats.bytes;
  times.backward =
      std::max(0.0, times.backward - stats.wait_ms - stats.gradient_ms);
}

void Learner::seed_step(std::int64_t step) const {
  auto random = data::Random(static_cast<std::uint64_t>(config_.seed))
                    .derive(static_cast<std::uint64_t>(step))
                    .derive(static_cast<std::uint64_t>(samples_.rank()));
  torch::manual_seed(random.next());
}

Learner::Piece Learner::piece_of_step(const data::Batch& batch,
                                      std::int64_t i) const {
  const std::int64_t rows = batch.size(), pieces = parts_of(batch);
  const std::int64_t first = i * rows / pieces;
  return piece_of(batch, first, (i + 1) * rows / pieces - first);
}

StepTimes Learner::train_step(const data::Batch& batch, std::int64_t step,
                              double learning_rate, Metrics& metrics) {
  StepTimes times = compute(batch, step, metrics);
  apply(learning_rate, times);
  return times;
}

StepTimes Learner::compute(const data::Batch& batch, std::int64_t step,
                           Metrics& metrics) {
  StepTimes times;
  seed_step(step);
  has_finite_losses_ = true;
  parallel::forget_gradients(*model_.module);
  const std::int64_t pieces = parts_of(batch);
  for (std::int64_t i = 0; i < pieces; ++i) {
    std::optional<parallel::Strategy::NoSync> guard;
    if (parallel_ && i + 1 < pieces) guard.emplace(*parallel_);
    learn(piece_of_step(batch, i), times, metrics);
  }
  take_exchange(times);
  // Parameters without gradient are not changed, even by weight decay and
  // momentum.
  for (Tensor& parameter : resting_) parameter.mutable_grad().reset();
  return times;
}

bool Learner::apply(double learning_rate, StepTimes& times) {
  Stopwatch watch;
  const TraceSpan span(trace_, "optimizer", "train");
  const bool is_least = scale_ && scale_->is_least();
  const bool is_good =
      !scale_ || scale_->unscale(tensors_of(parameters_), group_);
  if (is_good) {
    clip();
    set_learning_rate(*optimizer_, learning_rate);
    step_optimizer();
  }
  times.optimizer = watch.lap();
  return is_good || !is_least;
}

// Scopes have the same names as in torch.profiler.
void Learner::step_optimizer() {
  const tensor::Scope phase("sheaf::phase optimizer");
  const std::string& name = config_.optimizer.name;
  const char* const known = name == "sgd"     ? "SGD"
                            : name == "adam"  ? "Adam"
                            : name == "adamw" ? "AdamW"
                                              : name.c_str();
  const tensor::Scope scope(concat("Optimizer.step#", known, ".step"));
  optimizer_->step();
}

void Learner::clip() {
  if (config_.clip_norm == 0) return;
  const tensor::Scope phase("sheaf::phase clip");
  if (spatial_)
    spatial_->clip_gradients(config_.clip_norm);
  else
    parallel::clip_gradients(*model_.module, config_.clip_norm);
}

std::pair<Tensor, double> Learner::input_of(const data::Batch& batch) const {
  const Piece piece = piece_of(batch, 0, batch.size());
  return {piece.data, piece.weight};
}

void Learner::train_only(const std::vector<Tensor>& parameters) {
  resting_.clear();
  if (parameters.empty()) return;
  for (const auto& [name, parameter] : parameters_) {
    const Tensor& one = parameter;
    if (std::none_of(parameters.begin(), parameters.end(),
                     [&](const Tensor& other) { return other.is_same(one); }))
      resting_.push_back(one);
  }
}

std::vector<spatial::ExchangeNote> Learner::notes_of_step(
    const data::Batch& batch) {
  std::vector<spatial::ExchangeNote> notes;
  spatial::Tiles::WeightNames names;
  for (const auto& [name, tensor] : parameters_)
    names[tensor.unsafeGetTensorImpl()] = name;
  if (spatial_)
    spatial_->tiles()->listen([&](const auto& note) { notes.push_back(note); },
                              std::move(names));
  Metrics metrics(0);
  train_step(batch, 0, 0, metrics);
  if (spatial_) spatial_->tiles()->listen(nullptr);
  return notes;
}

void Learner::evaluate(const data::Batch& batch, Metrics& metrics) {
  const std::int64_t rows = batch.size();
  if (rows == 0) return;
  const torch::NoGradGuard no_grad;
  const Autocast autocast(device_.type(), config_.precision == "bf16");
  const Piece piece = piece_of(batch, 0, rows);
  const auto scope = plan_scope();
  const Tensor output = model_.forward(piece.data);
  add_to(metrics, piece, output, loss_sum(output, piece.target).item<double>());
}

std::vector<parallel::DadRoute> Learner::routes() const {
  const auto* dad =
      dynamic_cast<const parallel::DadParallelCore*>(parallel_.get());
  return dad ? dad->routes() : std::vector<parallel::DadRoute>{};
}

parallel::FixedRoutes Learner::fixed_routes() const {
  const auto* dad =
      dynamic_cast<const parallel::DadParallelCore*>(parallel_.get());
  return dad ? dad->fixed_routes() : parallel::FixedRoutes{};
}

void Learner::share_weights() {
  if (config_.has_unlike_devices())
    parallel::broadcast_tensors(group_, parameters_);
  if (parallel_) parallel_->share_buffers();
}

void Learner::check_weights() const {
  if (parallel_) parallel_->check_weights();
}

}  // namespace sheaf::train
