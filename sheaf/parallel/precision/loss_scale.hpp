#pragma once
// Loss scaling: gradients that are too small for f16 would become 0. The loss
// is multiplied by a scale, and the gradients are divided by it before they are
// used. The scale is adapted: if gradients are not finite, it is halved and the
// step is skipped; after many successful steps it is doubled.

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

  // Must be called after backward(). Divides the parameters' gradients by the
  // scale, each gradient once even if a parameter is listed twice, and checks
  // whether all gradients are finite on all ranks. Returns false if not; the
  // step must then be skipped. All ranks must call it, and all get the same
  // result.
  bool unscale(const std::vector<at::Tensor>& parameters,
               const comm::Group& group);

  double value() const { return value_; }
  // Whether the scale has reached its minimum.
  bool is_least() const { return value_ <= options_.least; }
  // The number of successful steps since the scale changed.
  std::int64_t good_steps() const { return good_steps_; }
  // For checkpoints: a tensor of two numbers. load() throws UsageError for any
  // other tensor.
  at::Tensor state() const;
  void load(const at::Tensor& state);

 private:
  LossScaleOptions options_;
  double value_;
  std::int64_t good_steps_ = 0;
};

}  // namespace sheaf::parallel
