#include "sheaf/train/strategy/spatial_strategy.hpp"

#include "sheaf/spatial/split/split_tensor.hpp"

namespace sheaf::train {
namespace {

using torch::Tensor;

std::vector<std::int64_t> with_rows(std::vector<std::int64_t> shape,
                                    std::int64_t rows) {
  shape.insert(shape.begin(), rows);
  return shape;
}

}  // namespace

SpatialStrategy::SpatialStrategy(
    const std::shared_ptr<torch::nn::Module>& module, const comm::Group& group,
    std::unique_ptr<spatial::SpatialParallelCore> core)
    : TrainingStrategy(module, group), core_(std::move(core)) {}

Tensor SpatialStrategy::input_part(const Tensor& images,
                                   const data::Batch& batch) const {
  if (batch.whole.empty()) return core_->cut(images);
  return core_->from_part(images, with_rows(batch.whole, images.size(0)));
}

Tensor SpatialStrategy::target_part(const Tensor& target,
                                    const data::Batch& batch) const {
  if (batch.whole_target.empty()) return target;
  const auto image = static_cast<std::int64_t>(batch.whole.size()) - 1;
  return spatial::from_part(target, core_->tiles(),
                            with_rows(batch.whole_target, target.size(0)),
                            static_cast<int>(target.dim() - image));
}

// The network's output for split images need not be split.
Tensor SpatialStrategy::target_for(const Tensor& output,
                                   const Tensor& target) const {
  const bool is_apart = spatial::is_split(target) && !spatial::is_split(output);
  return is_apart ? spatial::gather(target) : target;
}

// Only outputs with one row of classes per image are evaluated.
Tensor SpatialStrategy::output_for_metrics(const Tensor& output) const {
  const bool is_gathered = spatial::is_split(output) && output.dim() == 2;
  return is_gathered ? spatial::gather(output) : output;
}

// Ranks that process the same images are counted once.
bool SpatialStrategy::counts_samples() const {
  return core_->tiles()->rank() == 0;
}

void SpatialStrategy::clip_gradients(double max_norm) {
  core_->clip_gradients(max_norm);
}

Tensor SpatialStrategy::gather_owned(const Tensor& parameter,
                                     const Tensor& own) const {
  return core_->gather(parameter, own);
}

void SpatialStrategy::listen(spatial::Tiles::Listener listener,
                             spatial::Tiles::WeightNames names) {
  core_->tiles()->listen(std::move(listener), std::move(names));
}

}  // namespace sheaf::train
