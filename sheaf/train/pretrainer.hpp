#pragma once
// Trains the filters of one stage of a network without labels: what they make
// of an image is to give back the image, and to be sparse.

#include "sheaf/comm/group.hpp"
#include "sheaf/nn/pretrainable.hpp"
#include "sheaf/train/config.hpp"

namespace sheaf::train {

// Means over the rows of a global batch, which this rank's share is to be
// counted into: their mean over ranks is that of the batch.
struct PretrainingCost {
  double reconstruction = 0;
  double sparsity = 0;
};

// The cost of a row x with filters W, y = W x:
//   0.5 * |W' y - x|^2 + sparsity * sum of the pooled y.
// W' is the transposed W: encoder and decoder share their weights.
class Pretrainer {
 public:
  // All of them must outlive it.
  Pretrainer(const PretrainingConfig& config, nn::Pretrainable& network,
             std::size_t stage, const comm::Group& group);

  // One step on this rank's images, which may be none. A row counts `weight`
  // in sums whose mean over ranks is taken: ranks / rows of the global batch.
  // All ranks call it, and have the same weights before and after.
  PretrainingCost step(const at::Tensor& images, double weight);

 private:
  // Of the weights as the encoder's, and as the decoder's.
  struct Gradients {
    at::Tensor encoder;
    at::Tensor decoder;
  };
  Gradients gradients_of(const at::Tensor& images, double weight,
                         PretrainingCost& cost) const;
  void apply(const at::Tensor& gradient);

  const PretrainingConfig& config_;
  nn::Pretrainable& network_;
  std::size_t stage_;
  const comm::Group& group_;
  nn::LocallyConnected2d filters_;
};

}  // namespace sheaf::train
