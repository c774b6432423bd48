// Saves the state of a learner to checkpoints and restores it.
#include <map>

#include "sheaf/train/loop/learner.hpp"

namespace sheaf::train {

using torch::Tensor;

// Stored among the tensors of the exchange.
constexpr const char* kLossScale = "loss_scale";

void Learner::save_to(TrainState& state) const {
  state.weights = tensor::state_dict(*model_.module);
  state.optimizer = optimizer_state(*optimizer_, parameters_);
  if (spatial_) gather_places(state);
}

// Gathers the tensors that ranks train only for their own positions. The
// optimizer's tensors are named field/parameter.
void Learner::gather_places(TrainState& state) const {
  std::map<std::string, Tensor> by_name(parameters_.begin(), parameters_.end());
  for (NamedTensors* list : {&state.weights, &state.optimizer})
    for (auto& [name, tensor] : *list) {
      const auto found = by_name.find(
          list == &state.weights ? name : name.substr(name.find('/') + 1));
      if (found != by_name.end() && tensor.sizes() == found->second.sizes())
        tensor = spatial_->gather(found->second, tensor);
    }
}

void Learner::save_share_to(TrainState& state, int shard, int shards) const {
  save_to(state);
  const auto parameters = model_.module->named_parameters();
  NamedTensors alike, buffers;
  for (auto& entry : state.weights)
    (parameters.contains(entry.first) ? alike : buffers).push_back(entry);
  state.weights = share_of(alike, shard, shards);
  if (shard == 0)
    state.weights.insert(state.weights.end(), buffers.begin(), buffers.end());
  state.optimizer = share_of(state.optimizer, shard, shards);
}

void Learner::load_weights(const NamedTensors& weights) {
  tensor::load_state_dict(*model_.module, weights);
}

void Learner::load_from(const TrainState& state) {
  load_weights(state.weights);
  load_optimizer_state(*optimizer_, parameters_, state.optimizer);
  if (parallel_) parallel_->load_state(state.exchange);
  for (const auto& [name, tensor] : state.exchange)
    if (scale_ && name == kLossScale) scale_->load(tensor);
}

void Learner::gather_exchange(TrainState& state) const {
  if (parallel_) state.exchange = parallel_->gather_state();
  if (!scale_) return;
  if (!parallel_) state.exchange.clear();
  state.exchange.emplace_back(kLossScale, scale_->state());
}

}  // namespace sheaf::train
