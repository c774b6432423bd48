#include "sheaf/train/step/pieces.hpp"

#include <algorithm>

#include "sheaf/tensor/groups/scope.hpp"

namespace sheaf::train {

using torch::Tensor;

PieceCutter::PieceCutter(const RunConfig& config, const Network& network,
                         const TrainingStrategy& strategy)
    : strategy_(strategy),
      device_(network.device()),
      type_(network.type()),
      accumulate_(config.accumulate) {}

std::int64_t PieceCutter::pieces_of(const data::Batch& batch) const {
  return std::clamp<std::int64_t>(
      batch.global_size / strategy_.samples().size(), 1, accumulate_);
}

Piece PieceCutter::piece(const data::Batch& batch, std::int64_t i) const {
  const std::int64_t rows = batch.size(), pieces = pieces_of(batch);
  const std::int64_t first = i * rows / pieces;
  return cut(batch, first, (i + 1) * rows / pieces - first);
}

Piece PieceCutter::whole(const data::Batch& batch) const {
  return cut(batch, 0, batch.size());
}

// Gradients are averaged over ranks, so a row has `ranks` times its share of
// the global batch as weight.
Piece PieceCutter::cut(const data::Batch& batch, std::int64_t first,
                       std::int64_t rows) const {
  const tensor::Scope phase("sheaf::phase data");
  const double ranks =
      strategy_.has_exchange() ? strategy_.samples().size() : 1;
  Tensor images = batch.data.narrow(0, first, rows);
  if (images.is_floating_point()) images = images.to(type_);
  images = strategy_.input_part(images.to(device_), batch);
  const Tensor target = batch.target.narrow(0, first, rows).to(device_);
  return {images, strategy_.target_part(target, batch),
          ranks / static_cast<double>(batch.global_size)};
}

}  // namespace sheaf::train
