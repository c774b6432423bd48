#include "sheaf/train/step/optimized_parameters.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/common/module_tensors.hpp"
#include "sheaf/tensor/groups/scope.hpp"
#include "sheaf/train/step/finite.hpp"

namespace sheaf::train {
namespace {

using torch::Tensor;

// The same name as in torch.profiler.
std::string optimizer_scope(const std::string& name) {
  const char* const known = name == "sgd"     ? "SGD"
                            : name == "adam"  ? "Adam"
                            : name == "adamw" ? "AdamW"
                                              : name.c_str();
  return concat("Optimizer.step#", known, ".step");
}

Tensor zero_of(const std::vector<Tensor>& parameters, Tensor sum) {
  for (const Tensor& parameter : parameters)
    if (parameter.requires_grad()) sum = sum + parameter.sum() * 0;
  return sum;
}

}  // namespace

OptimizedParameters::OptimizedParameters(const RunConfig& config,
                                         torch::nn::Module& module)
    : parameters_(parallel::unique_parameters(module)),
      scope_(optimizer_scope(config.optimizer.name)) {
  SHEAF_CHECK(!parameters_.empty(), config.where("network"),
              "the network has no parameters to train");
  optimizer_ = make_optimizer(config.optimizer, tensors());
}

std::vector<Tensor> OptimizedParameters::tensors() const {
  std::vector<Tensor> result;
  for (const auto& [name, tensor] : parameters_) result.push_back(tensor);
  return result;
}

std::vector<Tensor> OptimizedParameters::gradients() const {
  std::vector<Tensor> list;
  for (const auto& [name, parameter] : parameters_)
    if (parameter.grad().defined()) list.push_back(parameter.grad());
  return list;
}

std::string OptimizedParameters::find_non_finite_gradient() const {
  for (const auto& [name, parameter] : parameters_)
    if (!is_finite(parameter.grad())) return name;
  return "";
}

void OptimizedParameters::train_only(const std::vector<Tensor>& parameters) {
  resting_.clear();
  if (parameters.empty()) return;
  for (const auto& [name, parameter] : parameters_) {
    const Tensor& one = parameter;
    if (std::none_of(parameters.begin(), parameters.end(),
                     [&](const Tensor& other) { return other.is_same(one); }))
      resting_.push_back(one);
  }
}

Tensor OptimizedParameters::zero_loss(
    const torch::TensorOptions& options) const {
  return zero_of(tensors(), torch::zeros({}, options));
}

Tensor OptimizedParameters::with_resting(
    const Tensor& loss, const torch::TensorOptions& options) const {
  if (resting_.empty()) return loss;
  return loss + zero_of(resting_, torch::zeros({}, options));
}

void OptimizedParameters::forget_resting_gradients() {
  for (Tensor& parameter : resting_) parameter.mutable_grad().reset();
}

void OptimizedParameters::step(double learning_rate) {
  set_learning_rate(*optimizer_, learning_rate);
  const tensor::Scope phase("sheaf::phase optimizer");
  const tensor::Scope scope(scope_);
  optimizer_->step();
}

NamedTensors OptimizedParameters::state() const {
  return optimizer_state(*optimizer_, parameters_);
}

void OptimizedParameters::load_state(const NamedTensors& state) {
  load_optimizer_state(*optimizer_, parameters_, state);
}

}  // namespace sheaf::train
