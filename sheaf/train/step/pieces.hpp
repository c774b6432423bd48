#pragma once
// Cuts a rank's share of a batch into the pieces that it processes at once.

#include <torch/torch.h>

#include "sheaf/data/dataset/dataset.hpp"
#include "sheaf/train/step/network.hpp"
#include "sheaf/train/strategy/training_strategy.hpp"

namespace sheaf::train {

struct Piece {
  torch::Tensor data;    // split if images are split
  torch::Tensor target;  // split if it has one value per pixel
  double weight = 0;     // weight of a row in sums averaged over ranks

  std::int64_t rows() const { return target.size(0); }
};

// The strategy must outlive it.
class PieceCutter {
 public:
  PieceCutter(const RunConfig& config, const Network& network,
              const TrainingStrategy& strategy);

  // The number of pieces of a step, the same on all ranks. A piece is empty
  // only if the rank's share of the batch is.
  std::int64_t pieces_of(const data::Batch& batch) const;
  Piece piece(const data::Batch& batch, std::int64_t i) const;
  // The rank's share as one piece.
  Piece whole(const data::Batch& batch) const;

 private:
  Piece cut(const data::Batch& batch, std::int64_t first,
            std::int64_t rows) const;

  const TrainingStrategy& strategy_;
  torch::Device device_;
  torch::ScalarType type_;
  std::int64_t accumulate_;
};

}  // namespace sheaf::train
