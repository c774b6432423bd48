#include "sheaf/train/setup/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <tuple>
#include <type_traits>

#include "sheaf/base/error.hpp"
#include "sheaf/nn/sgd.hpp"

namespace sheaf::train {
namespace {

using torch::Tensor;
using namespace torch::optim;

// The buffers of one parameter by name.
using Fields = std::vector<std::pair<std::string, Tensor>>;

Tensor count_tensor(std::int64_t count) { return torch::tensor(count); }

Fields fields_of(const SGDParamState& state) {
  return {{"momentum_buffer", state.momentum_buffer()}};
}

template <class AdamState>
Fields fields_of(const AdamState& state) {
  return {{"step", count_tensor(state.step())},
          {"exp_avg", state.exp_avg()},
          {"exp_avg_sq", state.exp_avg_sq()}};
}

void set_field(SGDParamState& state, const std::string&, const Tensor& value) {
  state.momentum_buffer(value.clone());
}

template <class AdamState>
void set_field(AdamState& state, const std::string& name, const Tensor& value) {
  if (name == "step")
    state.step(value.item<std::int64_t>());
  else if (name == "exp_avg")
    state.exp_avg(value.clone());
  else
    state.exp_avg_sq(value.clone());
}

// Calls `body` with a null pointer whose type is the optimizer's state type.
template <class Body>
void with_state_type(const Optimizer& optimizer, const Body& body) {
  if (dynamic_cast<const SGD*>(&optimizer))
    body(static_cast<SGDParamState*>(nullptr));
  else if (dynamic_cast<const Adam*>(&optimizer))
    body(static_cast<AdamParamState*>(nullptr));
  else if (dynamic_cast<const AdamW*>(&optimizer))
    body(static_cast<AdamWParamState*>(nullptr));
  else
    SHEAF_ASSERT(false, "unknown optimizer state type");
}

template <class State>
std::vector<std::string> field_names() {
  if constexpr (std::is_same_v<State, SGDParamState>)
    return {"momentum_buffer"};
  else
    return {"step", "exp_avg", "exp_avg_sq"};
}

void check_shape(const std::string& field, const std::string& name,
                 const Tensor& value, const Tensor& parameter) {
  SHEAF_CHECK(field == "step" || value.sizes() == parameter.sizes(),
              "the optimizer's ", field, " of ", name, " has shape ",
              value.sizes(), ", but the parameter has ", parameter.sizes(),
              "; the checkpoint belongs to another network");
}

using ByName = std::map<std::string, Tensor>;

template <class State>
std::unique_ptr<OptimizerParamState> take_state(const std::string& name,
                                                const Tensor& parameter,
                                                ByName& given) {
  auto state = std::make_unique<State>();
  bool is_given = false;
  for (const std::string& field : field_names<State>()) {
    const auto found = given.find(field + "/" + name);
    if (found == given.end()) continue;
    check_shape(field, name, found->second, parameter);
    const bool is_count = field == "step";
    set_field(*state, field,
              is_count ? found->second : found->second.to(parameter.device()));
    given.erase(found);
    is_given = true;
  }
  return is_given ? std::move(state) : nullptr;
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config,
                                          std::vector<Tensor> parameters) {
  const auto betas = std::make_tuple(config.beta1, config.beta2);
  if (config.name == "adam")
    return std::make_unique<Adam>(std::move(parameters),
                                  AdamOptions(config.learning_rate)
                                      .betas(betas)
                                      .eps(config.epsilon)
                                      .weight_decay(config.weight_decay));
  if (config.name == "adamw")
    return std::make_unique<AdamW>(std::move(parameters),
                                   AdamWOptions(config.learning_rate)
                                       .betas(betas)
                                       .eps(config.epsilon)
                                       .weight_decay(config.weight_decay));
  return std::make_unique<nn::Sgd>(std::move(parameters),
                                   SGDOptions(config.learning_rate)
                                       .momentum(config.momentum)
                                       .nesterov(config.nesterov)
                                       .weight_decay(config.weight_decay));
}

void set_learning_rate(Optimizer& optimizer, double rate) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(rate);
}

NamedTensors optimizer_state(const Optimizer& optimizer,
                             const NamedTensors& parameters) {
  NamedTensors result;
  with_state_type(optimizer, [&](auto* type) {
    using State = std::remove_pointer_t<decltype(type)>;
    for (const auto& [name, parameter] : parameters) {
      const auto found = optimizer.state().find(nn::optimizer_key(parameter));
      if (found == optimizer.state().end()) continue;
      for (auto& [field, value] :
           fields_of(static_cast<const State&>(*found->second)))
        if (value.defined()) result.emplace_back(field + "/" + name, value);
    }
  });
  return result;
}

void load_optimizer_state(Optimizer& optimizer, const NamedTensors& parameters,
                          const NamedTensors& state) {
  ByName given(state.begin(), state.end());
  with_state_type(optimizer, [&](auto* type) {
    using State = std::remove_pointer_t<decltype(type)>;
    optimizer.state().clear();
    for (const auto& [name, parameter] : parameters)
      if (auto one = take_state<State>(name, parameter, given))
        optimizer.state()[nn::optimizer_key(parameter)] = std::move(one);
  });
  SHEAF_CHECK(given.empty(), "the checkpoint has optimizer state '",
              given.begin()->first,
              "', which this run's optimizer or network does not have; resume "
              "with the config that the run started with");
}

Schedule::Schedule(const RunConfig& config, std::int64_t steps_per_epoch)
    : schedule_(config.schedule),
      rate_(config.optimizer.learning_rate),
      steps_per_epoch_(static_cast<double>(steps_per_epoch)),
      warmup_steps_(std::round(schedule_.warmup_epochs * steps_per_epoch_)),
      total_steps_(static_cast<double>(config.epochs) * steps_per_epoch_) {}

double Schedule::rate(std::int64_t step) const {
  const auto now = static_cast<double>(step);
  if (now >= warmup_steps_) return rate_ * factor(now);
  const double low = schedule_.warmup_factor;
  return rate_ * (low + (1 - low) * (now + 1) / warmup_steps_);
}

double Schedule::factor(double step) const {
  if (schedule_.name == "step") {
    const double drops =
        std::floor(step / (schedule_.every * steps_per_epoch_));
    return std::pow(schedule_.factor, drops);
  }
  if (schedule_.name != "cosine") return 1;
  const double length = std::max(1.0, total_steps_ - warmup_steps_);
  const double done = std::min(1.0, (step - warmup_steps_) / length);
  const double low = schedule_.final_factor;
  return low + (1 - low) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

}  // namespace sheaf::train
