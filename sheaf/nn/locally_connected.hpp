#pragma once
// Convolution with filters that are not shared: each output position has its
// own. Also the transposed operation, which is a decoder with tied weights.

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace sheaf::nn {

// Rows, then columns.
using Pair = std::vector<std::int64_t>;

struct LocallyConnectedOptions {
  std::int64_t in_channels = 1;
  std::int64_t out_channels = 1;
  Pair image;  // that comes in
  Pair kernel;
  Pair stride = {1, 1};
  Pair padding = {0, 0};
  bool bias = false;  // of each output number
};

// y[b, o, p] = sum over k of weight[o, k, p] * window of x at p [b, k], for
// images x [batch, channels, rows, columns] and weights [out channels, channels
// * kernel rows * kernel columns, output rows, output columns]. In libtorch's
// dispatcher it is the operation sheaf::locally_connected2d, with gradients.
at::Tensor locally_connected2d(const at::Tensor& x, const at::Tensor& weight,
                               at::IntArrayRef kernel, at::IntArrayRef stride,
                               at::IntArrayRef padding);

// Its exact adjoint in x: overlapping windows add up in an image of that many
// rows and columns. sheaf::locally_connected2d_transposed in the dispatcher.
at::Tensor locally_connected2d_transposed(
    const at::Tensor& y, const at::Tensor& weight, at::IntArrayRef kernel,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef image);

// Gives every filter, which is one of weight[o, :, p], the length 1; those of
// zeros stay.
void normalise_filters_(const at::Tensor& weight);

class LocallyConnected2dImpl : public torch::nn::Module {
 public:
  // Weights are drawn as a convolution's. UsageError where the kernel is larger
  // than the image with its padding.
  explicit LocallyConnected2dImpl(LocallyConnectedOptions options);

  at::Tensor forward(const at::Tensor& x);

  // Without bias, with `weights` in the place of its own.
  at::Tensor encode(const at::Tensor& x, const at::Tensor& weights) const;
  at::Tensor decode(const at::Tensor& y, const at::Tensor& weights) const;

  // How many windows each pixel of the image is in, [1, 1, rows, columns]: so
  // many terms of each filter add up in decode().
  at::Tensor coverage() const;

  const LocallyConnectedOptions& options() const { return options_; }
  Pair output_image() const;

  at::Tensor weight;
  at::Tensor bias;  // undefined: none

 private:
  LocallyConnectedOptions options_;
};
TORCH_MODULE(LocallyConnected2d);

}  // namespace sheaf::nn
