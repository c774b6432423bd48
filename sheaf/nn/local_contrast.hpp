#pragma once
// L2 pooling and local contrast normalization, used after the filters of sparse
// coding networks.

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>

namespace sheaf::nn {

struct L2PoolOptions {
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  double eps = 1e-8;  // keeps the gradient finite if a window is all zeros
};

// sqrt(eps + sum of squares) of each window, per channel.
at::Tensor l2_pool2d(const at::Tensor& x, const L2PoolOptions& options = {});

struct LocalContrastNormOptions {
  std::int64_t channels = 1;
  std::int64_t kernel = 3;  // odd
  // Lower bound of the standard deviation that is divided by, so that noise is
  // not amplified. 0: no lower bound; a deviation of 0 divides by 1.
  double floor = 0.01;
};

// Subtracts the local mean and divides by the local standard deviation. G is a
// Gaussian window whose standard deviation is a third of its radius and whose
// sum over all channels is 1; the image is zero-padded:
//   m = G * sum of x over channels,  v = x - m,
//   S^2 = G * sum of v^2 over channels,  y = v / max(S, floor).
// Since channels are summed first, the convolution has a single channel.
class LocalContrastNormImpl : public torch::nn::Module {
 public:
  // Throws UsageError if the kernel is even or the floor is negative.
  explicit LocalContrastNormImpl(const LocalContrastNormOptions& options);

  at::Tensor forward(const at::Tensor& x);

 private:
  // G * sum of x over channels.
  at::Tensor around(const at::Tensor& x) const;

  LocalContrastNormOptions options_;
  at::Tensor window_;  // a buffer, [1, 1, kernel, kernel]
};
TORCH_MODULE(LocalContrastNorm);

}  // namespace sheaf::nn
