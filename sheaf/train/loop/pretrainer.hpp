#pragma once
// Trains the filters of one stage of a network without labels: what they make
// of an image is to give back the image, and to be sparse.

#include <optional>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/nn/pretrainable.hpp"
#include "sheaf/train/config/config.hpp"
#include "sheaf/train/loop/finite.hpp"

namespace sheaf::train {

// Means over the rows of a global batch, which this rank's share is to be
// counted into: their mean over ranks is that of the batch.
struct PretrainingCost {
  double reconstruction = 0;
  double sparsity = 0;
};

// The cost of a row x with filters W, y = W x:
//   0.5 * |D W' y - x|^2 + sparsity * sum of the pooled y.
// W' is the transposed W: encoder and decoder share their weights. A plain cost
// has no D: what all windows on a pixel say of it adds up. With filters of
// length 1 that is many times x, and they learn to see what images have not. In
// a scaled cost D makes it the mean over windows times the gain; x is what the
// filters get to see, less its mean over the first batch (config.center), times
// one number for the stage, so that the squares at one place of the first batch
// add up to 1 on average: the same learning rate and sparsity then go for all
// stages. The mean is what all images have in common. Filters that learn to
// give it back, for it is most of a photograph's brightness, respond to all
// images alike, each stage more so than the one before.
class Pretrainer {
 public:
  // All of them must outlive it.
  Pretrainer(const PretrainingConfig& config, nn::Pretrainable& network,
             std::size_t stage, const comm::Group& group);

  // Of the weights as the encoder's, and as the decoder's.
  struct Gradients {
    at::Tensor encoder;
    at::Tensor decoder;
  };
  // Of the first batch.
  struct Measure {
    at::Tensor mean;  // of an image; undefined: none is taken away
    double scale = 1;
  };
  struct Step {
    Gradients gradients;  // averaged over ranks
    PretrainingCost cost;
    Measure measure;
  };

  // One step on this rank's images, which may be none. A row counts `weight`
  // in sums whose mean over ranks is taken: ranks / rows of the global batch.
  // All ranks call it, and have the same weights before and after.
  PretrainingCost step(const at::Tensor& images, double weight);
  // Its two halves; the first changes nothing. All ranks call both.
  Step compute(const at::Tensor& images, double weight) const;
  void apply(const Step& step);

  // The first of the values that compute() goes through that is not finite, on
  // this rank. Averages no gradients. All ranks call it.
  NonFiniteCause find_non_finite(const at::Tensor& images, double weight) const;

 private:
  at::Tensor seen_in(const at::Tensor& images) const;
  // All ranks call it.
  Measure measure_of(const at::Tensor& seen, double weight) const;
  at::Tensor mean_of(const at::Tensor& seen, double weight) const;
  double scale_of(const at::Tensor& seen, double weight) const;
  // Less the mean, times the scale; none of it for no rows.
  at::Tensor scaled(const at::Tensor& seen, const Measure& measure) const;
  at::Tensor decode(const at::Tensor& filtered,
                    const at::Tensor& weights) const;
  Gradients gradients_of(const at::Tensor& seen, double weight,
                         PretrainingCost& cost) const;
  void descend(const at::Tensor& gradient);

  const PretrainingConfig& config_;
  nn::Pretrainable& network_;
  std::size_t stage_;
  const comm::Group& group_;
  nn::LocallyConnected2d filters_;
  at::Tensor shares_;               // of a window in each pixel; undefined: 1
  std::optional<Measure> measure_;  // after the first batch
};

}  // namespace sheaf::train
