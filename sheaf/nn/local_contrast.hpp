#pragma once
// What follows filters in stacks of sparse coding: pooling by length, and
// normalisation by what is around.

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>

namespace sheaf::nn {

struct L2PoolOptions {
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  double eps = 1e-8;  // keeps the gradient finite where all is 0
};

// sqrt(eps + the sum of squares in each window), channel by channel.
at::Tensor l2_pool2d(const at::Tensor& x, const L2PoolOptions& options = {});

struct LocalContrastNormOptions {
  std::int64_t channels = 1;
  std::int64_t kernel = 3;  // odd
  // The least deviation to divide by: what varies less is noise, and stays
  // small. 0 divides by any but 0 itself.
  double floor = 0.01;
};

// Takes the mean around each place away, and divides by the deviation around
// it. G is a Gaussian window, its deviation a third of its radius, with a sum
// of 1 over all channels; beyond the border are zeros:
//   m = G * sum of x over channels,  v = x - m,
//   S^2 = G * sum of v^2 over channels,  y = v / max(S, floor).
// The window goes over maps of one channel only.
class LocalContrastNormImpl : public torch::nn::Module {
 public:
  // UsageError where the kernel is even.
  explicit LocalContrastNormImpl(const LocalContrastNormOptions& options);

  at::Tensor forward(const at::Tensor& x);

 private:
  // Of the sum over channels.
  at::Tensor around(const at::Tensor& x) const;

  LocalContrastNormOptions options_;
  at::Tensor window_;  // a buffer, [1, 1, kernel, kernel]
};
TORCH_MODULE(LocalContrastNorm);

}  // namespace sheaf::nn
