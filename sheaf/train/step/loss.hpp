#pragma once
// The loss function of a run, and the parts that it needs outside of steps.

#include <torch/torch.h>

#include <string>

#include "sheaf/train/step/network.hpp"
#include "sheaf/train/step/pieces.hpp"
#include "sheaf/train/strategy/training_strategy.hpp"

namespace sheaf::train {

// The strategy must outlive it.
class Loss {
 public:
  // `name` is mse, nll or cross_entropy; `rank` is for messages.
  Loss(std::string name, int rank, const TrainingStrategy& strategy)
      : name_(std::move(name)), rank_(rank), strategy_(strategy) {}

  // The sum of the losses of all rows. Throws UsageError if output and target
  // do not match.
  torch::Tensor sum(const torch::Tensor& output,
                    const torch::Tensor& target) const;

 private:
  torch::Tensor squares(const torch::Tensor& output,
                        const torch::Tensor& target) const;
  torch::Tensor of_classes(const torch::Tensor& output,
                           const torch::Tensor& target) const;

  std::string name_;
  int rank_;
  const TrainingStrategy& strategy_;
};

// What computes the loss of a piece, for passes outside of steps.
struct LossPath {
  Network& network;
  const PieceCutter& cutter;
  const Loss& loss;
};

}  // namespace sheaf::train
