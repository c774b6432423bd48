#pragma once
// The curvature of a step's loss with respect to weights.

#include <vector>

#include "sheaf/data/dataset/random.hpp"
#include "sheaf/train/step/curvature.hpp"
#include "sheaf/train/step/loss_path.hpp"

namespace sheaf::train {

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
