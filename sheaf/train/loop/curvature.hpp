#pragma once
// How curved the loss is in each weight: the trace of its second derivatives H.
//
// Hutchinson's estimator. For a vector v of random signs the mean of v'Hv is
// the trace of H. Hv, in all weights at once, is the derivative of v'g, with g
// the gradient, that is one more backward pass. The signs of two weights are
// independent, so the part of v'Hv that a weight's own v gives has the trace of
// its own block as its mean.

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::train {

struct Curvature {
  double trace = 0;
  double error = 0;  // the standard error of the trace; 0 with one sample
};

class CurvatureSums {
 public:
  // `samples`, one or more, is the number of vectors.
  CurvatureSums(std::vector<torch::Tensor> weights, int samples,
                std::uint64_t seed);

  // Adds those of a part of the loss: a number, whose graph is used up.
  // UsageError names an operator that cannot be differentiated twice.
  void add(const torch::Tensor& loss);

  // Of this rank, in the order of the weights.
  std::vector<Curvature> values() const;

 private:
  std::vector<torch::Tensor> signs(std::size_t sample) const;
  void add_sample(std::size_t sample,
                  const std::vector<torch::Tensor>& gradients, bool is_last);

  std::vector<torch::Tensor> weights_;
  std::uint64_t seed_;
  std::vector<std::vector<double>> products_;  // by sample, by weight
};

// Of the mean of the ranks' losses, their signs being independent. All ranks
// call it, with as many values.
std::vector<Curvature> mean_curvature(std::vector<Curvature> mine,
                                      const comm::Group& group);

}  // namespace sheaf::train
