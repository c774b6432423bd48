#include "sheaf/train/strategy/training_strategy.hpp"

#include "sheaf/parallel/common/gradients.hpp"

namespace sheaf::train {

using torch::Tensor;

Tensor TrainingStrategy::input_part(const Tensor& images,
                                    const data::Batch& /*batch*/) const {
  return images;
}

Tensor TrainingStrategy::target_part(const Tensor& target,
                                     const data::Batch& /*batch*/) const {
  return target;
}

Tensor TrainingStrategy::target_for(const Tensor& /*output*/,
                                    const Tensor& target) const {
  return target;
}

Tensor TrainingStrategy::output_for_metrics(const Tensor& output) const {
  return output;
}

void TrainingStrategy::forward_nothing() {
  if (!core()) return;
  core()->before_forward();
  core()->after_forward({});
}

void TrainingStrategy::stop_sync(
    std::optional<parallel::Strategy::NoSync>& guard) {
  if (core()) guard.emplace(*core());
}

void TrainingStrategy::clip_gradients(double max_norm) {
  parallel::clip_gradients(*module_, max_norm);
}

Tensor TrainingStrategy::gather_owned(const Tensor& /*parameter*/,
                                      const Tensor& own) const {
  return own;
}

void TrainingStrategy::listen(spatial::Tiles::Listener /*listener*/,
                              spatial::Tiles::WeightNames /*names*/) {}

parallel::NamedTensors TrainingStrategy::gather_state() const {
  return core() ? core()->gather_state() : parallel::NamedTensors{};
}

void TrainingStrategy::load_state(const parallel::NamedTensors& saved) {
  if (core()) core()->load_state(saved);
}

void TrainingStrategy::share_buffers() {
  if (core()) core()->share_buffers();
}

void TrainingStrategy::check_weights() const {
  if (core()) core()->check_weights();
}

parallel::ExchangeStats TrainingStrategy::take_stats() {
  if (!core()) return {};
  const parallel::ExchangeStats stats = core()->stats();
  core()->reset_stats();
  return stats;
}

}  // namespace sheaf::train
