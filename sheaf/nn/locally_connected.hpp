#pragma once
// Locally connected layer: a convolution with a separate filter for each output
// position. Also the transposed operation, a decoder with tied weights.

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
  Pair image;  // size of the input image
  Pair kernel;
  Pair stride = {1, 1};
  Pair padding = {0, 0};
  bool bias = false;  // one per output element
};

// y[b, o, p] = sum over k of weight[o, k, p] * window of x at p [b, k], for
// images x [batch, channels, rows, columns] and weights [out channels, channels
// * kernel rows * kernel columns, output rows, output columns]. Registered in
// libtorch's dispatcher as sheaf::locally_connected2d, with autograd support.
at::Tensor locally_connected2d(const at::Tensor& x, const at::Tensor& weight,
                               at::IntArrayRef kernel, at::IntArrayRef stride,
                               at::IntArrayRef padding);

// The exact adjoint in x: overlapping windows are added in an image of size
// `image`. Registered as sheaf::locally_connected2d_transposed.
at::Tensor locally_connected2d_transposed(
    const at::Tensor& y, const at::Tensor& weight, at::IntArrayRef kernel,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef image);

// Scales every filter weight[o, :, p] to length 1, in place. Zero filters are
// unchanged.
void normalize_filters_(const at::Tensor& weight);

class LocallyConnected2dImpl : public torch::nn::Module {
 public:
  // Initializes the weights like a convolution's. Throws UsageError if the
  // kernel is larger than the padded image.
  explicit LocallyConnected2dImpl(LocallyConnectedOptions options);

  at::Tensor forward(const at::Tensor& x);

  // The operation and its transpose with `weights` instead of this layer's, and
  // without bias.
  at::Tensor encode(const at::Tensor& x, const at::Tensor& weights) const;
  at::Tensor decode(const at::Tensor& y, const at::Tensor& weights) const;

  // The number of windows that contain each pixel, [1, 1, rows, columns]. This
  // is the number of terms per map that decode() adds at a pixel.
  at::Tensor coverage() const;

  const LocallyConnectedOptions& options() const { return options_; }
  Pair output_image() const;

  at::Tensor weight;
  at::Tensor bias;  // undefined if the layer has none

 private:
  LocallyConnectedOptions options_;
};
TORCH_MODULE(LocallyConnected2d);

}  // namespace sheaf::nn
