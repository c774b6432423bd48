#include "sheaf/train/checkpoint/checkpoint_state.hpp"

#include "sheaf/base/error.hpp"

namespace sheaf::train {
namespace {

// Stored with the optimizer state because it is a large matrix if there are
// many classes.
constexpr const char* kMetricSums = "metric_sums";
constexpr std::string_view kExchange = "exchange/";

}  // namespace

NamedTensors with_rest(const TrainState& state) {
  NamedTensors tensors = state.optimizer;
  for (const auto& [name, tensor] : state.exchange)
    tensors.emplace_back(concat(kExchange, name), tensor);
  if (!state.metric_sums.empty())
    tensors.emplace_back(kMetricSums,
                         torch::tensor(state.metric_sums, torch::kDouble));
  return tensors;
}

void take_rest(TrainState& state) {
  NamedTensors all = std::move(state.optimizer);
  state.optimizer.clear();
  for (auto& [name, tensor] : all) {
    if (name == kMetricSums) {
      const torch::Tensor sums = tensor.contiguous();
      const auto* data = sums.data_ptr<double>();
      state.metric_sums.assign(data, data + sums.numel());
    } else if (name.rfind(kExchange, 0) == 0) {
      state.exchange.emplace_back(name.substr(kExchange.size()), tensor);
    } else {
      state.optimizer.emplace_back(name, tensor);
    }
  }
}

}  // namespace sheaf::train
