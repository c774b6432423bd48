#include "sheaf/nn/locally_connected.hpp"

#include <torch/torch.h>

#include <cmath>

#include "sheaf/base/error.hpp"

namespace sheaf::nn {
namespace {

using at::IntArrayRef;
using at::Tensor;

std::int64_t windows_in(std::int64_t image, std::int64_t kernel,
                        std::int64_t stride, std::int64_t padding) {
  return (image + 2 * padding - kernel) / stride + 1;
}

}  // namespace

void normalize_filters_(const Tensor& weight) {
  const at::NoGradGuard no_grad;
  const Tensor length = weight.mul(weight).sum(1, /*keepdim=*/true).sqrt();
  Tensor(weight).div_(length.masked_fill(length.eq(0), 1));
}

LocallyConnected2dImpl::LocallyConnected2dImpl(LocallyConnectedOptions options)
    : options_(std::move(options)) {
  const Pair output = output_image();
  SHEAF_CHECK(output[0] > 0 && output[1] > 0, "a kernel of ",
              IntArrayRef(options_.kernel), " does not fit images of ",
              IntArrayRef(options_.image), " with padding ",
              IntArrayRef(options_.padding),
              "; use a smaller kernel or more padding");
  const std::int64_t window =
      options_.in_channels * options_.kernel[0] * options_.kernel[1];
  const double bound = 1 / std::sqrt(static_cast<double>(window));
  weight = register_parameter(
      "weight",
      torch::empty({options_.out_channels, window, output[0], output[1]})
          .uniform_(-bound, bound));
  if (!options_.bias) return;
  bias = register_parameter(
      "bias", torch::empty({options_.out_channels, output[0], output[1]})
                  .uniform_(-bound, bound));
}

Pair LocallyConnected2dImpl::output_image() const {
  Pair output;
  for (std::size_t i = 0; i < 2; ++i)
    output.push_back(options_.image[i] + 2 * options_.padding[i] <
                             options_.kernel[i]
                         ? 0
                         : windows_in(options_.image[i], options_.kernel[i],
                                      options_.stride[i], options_.padding[i]));
  return output;
}

Tensor LocallyConnected2dImpl::forward(const Tensor& x) {
  const Tensor y = encode(x, weight);
  return bias.defined() ? y + bias : y;
}

Tensor LocallyConnected2dImpl::encode(const Tensor& x,
                                      const Tensor& weights) const {
  return locally_connected2d(x, weights, options_.kernel, options_.stride,
                             options_.padding);
}

Tensor LocallyConnected2dImpl::decode(const Tensor& y,
                                      const Tensor& weights) const {
  return locally_connected2d_transposed(y, weights, options_.kernel,
                                        options_.stride, options_.padding,
                                        options_.image);
}

Tensor LocallyConnected2dImpl::coverage() const {
  const Pair output = output_image();
  const auto ones = [&](std::int64_t numbers) {
    return torch::ones({1, numbers, output[0], output[1]},
                       weight.options().requires_grad(false));
  };
  return decode(ones(1), ones(options_.kernel[0] * options_.kernel[1]));
}

}  // namespace sheaf::nn
