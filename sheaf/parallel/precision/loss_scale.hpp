#pragma once
// Gradients that are too small for f16 become 0. A loss that is multiplied by a
// large number has larger ones, which are divided by it before they are used.
// The number is found by trial: where gradients are no longer finite it is
// halved and the step is left out; after many good steps it is doubled.

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::parallel {

struct LossScaleOptions {
  double start = 65536;
  double least = 1;
  double most = 16777216;  // 2^24
  std::int64_t growth_steps = 2000;
};

class LossScale {
 public:
  explicit LossScale(const LossScaleOptions& options = {});

  at::Tensor scaled(const at::Tensor& loss) const { return loss * value_; }

  // After backward(): divides the parameters' gradients, each once also where a
  // parameter is listed twice, and looks whether all are finite on all ranks.
  // Where not, false: the step is to be left out. All ranks call it together,
  // and get the same answer.
  bool unscale(const std::vector<at::Tensor>& parameters,
               const comm::Group& group);

  double value() const { return value_; }
  // It cannot be halved again.
  bool is_least() const { return value_ <= options_.least; }
  std::int64_t good_steps() const { return good_steps_; }  // since it changed
  // What state() gave, for checkpoints: two numbers.
  at::Tensor state() const;
  void load(const at::Tensor& state);

 private:
  LossScaleOptions options_;
  double value_;
  std::int64_t good_steps_ = 0;
};

}  // namespace sheaf::parallel
