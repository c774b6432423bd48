#pragma once
// Curvature of the loss with respect to each weight: the trace of the weight's
// block of the Hessian H.
//
// Hutchinson's estimator. For a vector v of random signs, the mean of v'Hv is
// the trace of H. Hv, for all weights at once, is the derivative of v'g, where
// g is the gradient: one more backward pass. The signs of two weights are
// independent, so the mean of a weight's part of v'Hv is the trace of that
// weight's block.

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/data/dataset/random.hpp"
#include "sheaf/train/step/loss.hpp"

namespace sheaf::train {

struct Curvature {
  double trace = 0;
  double error = 0;  // standard error of the trace; 0 with one sample
};

// Accumulates the curvature of a loss that is computed in parts.
class CurvatureSums {
 public:
  // `samples`, at least 1, is the number of random vectors.
  CurvatureSums(std::vector<torch::Tensor> weights, int samples,
                std::uint64_t seed);

  // Adds a part of the loss, a scalar whose graph is consumed. Throws a
  // UsageError that names an operator that cannot be differentiated twice.
  void add(const torch::Tensor& loss);

  // Results of this rank, in the order of the weights.
  std::vector<Curvature> values() const;

 private:
  std::vector<torch::Tensor> signs(std::size_t sample) const;
  void add_sample(std::size_t sample,
                  const std::vector<torch::Tensor>& gradients, bool is_last);

  std::vector<torch::Tensor> weights_;
  std::uint64_t seed_;
  std::vector<std::vector<double>> products_;  // by sample, then by weight
};

// Curvature of the mean of the ranks' losses; the ranks' signs must be
// independent. All ranks must call it with the same number of values.
std::vector<Curvature> mean_curvature(std::vector<Curvature> mine,
                                      const comm::Group& group);

struct CurvatureOptions {
  int samples = 1;
  data::Random random{0};  // different on each rank
};

// The curvature on this rank's share of the batch, computed in the type of the
// weights regardless of the plan. Changes no state. Layers must not exchange
// data.
std::vector<Curvature> loss_curvature(const LossPath& path,
                                      const data::Batch& batch,
                                      const std::vector<torch::Tensor>& weights,
                                      const CurvatureOptions& options);

}  // namespace sheaf::train
