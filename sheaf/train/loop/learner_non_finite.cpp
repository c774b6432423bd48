// Detects steps with non-finite loss or gradients and finds their cause.
#include "sheaf/tensor/groups/scope.hpp"
#include "sheaf/train/checkpoint/kept_state.hpp"
#include "sheaf/train/loop/finite.hpp"
#include "sheaf/train/loop/learner.hpp"
#include "sheaf/train/loop/non_finite.hpp"
#include "sheaf/train/setup/autocast.hpp"

namespace sheaf::train {
namespace {

using torch::Tensor;

// The order within a step; see NonFiniteCause.
enum Place : int { kInBatch, kInPasses, kInWeights };

std::vector<Tensor> gradients_in(const NamedTensors& parameters) {
  std::vector<Tensor> list;
  for (const auto& [name, parameter] : parameters)
    if (parameter.grad().defined()) list.push_back(parameter.grad());
  return list;
}

// Describes the first non-finite row; empty if all are finite.
std::string find_in_rows(const Tensor& rows, const char* what) {
  if (is_finite(rows)) return "";
  std::int64_t row = 0;
  while (is_finite(rows[row])) ++row;
  return concat("the ", what, " of row ", row, " of the rank's ", rows.size(0),
                " rows of the batch");
}

}  // namespace

// Scaled gradients may overflow: apply() then detects it and reduces the scale.
bool Learner::is_step_finite() const {
  const tensor::Scope phase("sheaf::phase check");
  return has_finite_losses_ &&
         (scale_.has_value() || are_finite(gradients_in(parameters_)));
}

std::set<std::string> Learner::find_infinite_buffers() const {
  const auto parameters = model_.module->named_parameters();
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensor::state_dict(*model_.module))
    if (!parameters.contains(name) && !is_finite(tensor)) names.insert(name);
  return names;
}

std::string Learner::find_non_finite_weight() const {
  for (const auto& [name, tensor] : tensor::state_dict(*model_.module))
    if (!infinite_buffers_.contains(name) && !is_finite(tensor)) return name;
  return "";
}

NonFiniteCause Learner::find_non_finite(const data::Batch& batch,
                                        std::int64_t step) {
  const std::string weight = find_non_finite_weight();
  std::string in_batch = find_in_rows(batch.data, "input");
  if (in_batch.empty()) in_batch = find_in_rows(batch.target, "target");
  const KeptState kept(*model_.module, device_);
  seed_step(step);
  std::string in_passes;
  for (std::int64_t i = 0; i < parts_of(batch); ++i) {
    const std::string found = find_in_piece(piece_of_step(batch, i));
    if (in_passes.empty()) in_passes = found;
  }
  if (!in_batch.empty()) return {in_batch, kInBatch};
  if (!in_passes.empty()) return {in_passes, kInPasses};
  if (weight.empty()) return {};
  return {concat("the weight or buffer '", weight, "', before the step"),
          kInWeights};
}

std::string Learner::find_in_piece(const Piece& piece) {
  if (piece.target.size(0) == 0 && !config_.parallel.sync_batchnorm) return "";
  const Autocast autocast(device_.type(), config_.precision == "bf16");
  NonFiniteSearch search(*model_.module);
  Tensor sum;
  {
    const auto scope = plan_scope();
    sum = loss_sum(model_.forward(piece.data), piece.target);
  }
  Tensor loss = sum * piece.weight;
  if (scale_) loss = scale_->scaled(loss);
  const std::string in_forward = search.find_in_forward(sum);
  const std::string in_backward = search.find_in_backward(loss);
  return in_forward.empty() ? in_backward : in_forward;
}

// Used if no rank's passes show the cause: sums over pieces or ranks may
// overflow.
std::string Learner::find_non_finite_gradient() const {
  for (const auto& [name, parameter] : parameters_)
    if (!is_finite(parameter.grad())) return name;
  return "";
}

}  // namespace sheaf::train
