#pragma once
// A model on its device, computing in the precision of the config or its plan.

#include <torch/torch.h>

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/precision/precision.hpp"
#include "sheaf/train/config/config.hpp"
#include "sheaf/train/setup/network_setup.hpp"

namespace sheaf::train {

// Automatic mixed precision: while an object exists, this thread's operations
// on `device` run in bf16 if libtorch considers that safe. Does nothing if
// `is_on` is false.
class Autocast {
 public:
  Autocast(torch::DeviceType device, bool is_on);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  torch::DeviceType device_;
  bool is_on_;
};

// Not thread-safe. All ranks must construct it together.
class Network {
 public:
  // Moves the module to this rank's device and to the config's type.
  Network(const RunConfig& config, Model model, const comm::Group& group);

  // Applies the config's plan, if it has one. Must be called once, after the
  // strategy is created, when all ranks have rank 0's weights. All ranks must
  // call it. Returns whether a rank's gradients require a loss scale.
  bool use_plan(const RunConfig& config, const comm::Group& group);

  // Calls the model's forward() in the type of the weights, whatever the plan.
  torch::Tensor forward(const torch::Tensor& input) const {
    return model_.forward(input);
  }
  // While the results exist, operators compute in the precision of the config,
  // and in those of the plan.
  Autocast autocast() const { return {device_.type(), is_bf16_}; }
  std::unique_ptr<parallel::MixedPrecision::Scope> plan_scope();

  // Null: each layer computes in the type of its weights.
  const plan::PrecisionPlan* plan() const {
    return precision_ ? &precision_->plan() : nullptr;
  }
  torch::nn::Module& module() const { return *model_.module; }
  const std::shared_ptr<torch::nn::Module>& module_ptr() const {
    return model_.module;
  }
  const torch::Device& device() const { return device_; }
  torch::ScalarType type() const { return type_; }

  // The first non-finite weight or buffer; empty if there is none. Ignores
  // buffers that were not finite at use_plan(), such as a causal mask.
  std::string find_non_finite_weight() const;

 private:
  std::set<std::string> find_infinite_buffers() const;

  Model model_;
  torch::Device device_;
  torch::ScalarType type_;
  bool is_bf16_;  // libtorch chooses the operators
  std::optional<parallel::MixedPrecision> precision_;  // with a plan
  std::set<std::string> infinite_buffers_;             // at use_plan()
};

}  // namespace sheaf::train
