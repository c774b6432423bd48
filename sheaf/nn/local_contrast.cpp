#include "sheaf/nn/local_contrast.hpp"

#include <torch/torch.h>

#include "sheaf/base/error.hpp"

namespace sheaf::nn {
namespace {

using at::Tensor;

Tensor gaussian_window(std::int64_t kernel, std::int64_t channels) {
  const double radius = static_cast<double>(kernel / 2);
  const double deviation = radius > 0 ? radius / 3 : 1;
  const Tensor places =
      torch::arange(kernel, torch::kDouble).sub(radius).div(deviation);
  const Tensor line = places.mul(places).mul(-0.5).exp();
  const Tensor square = torch::outer(line, line);
  return square.div(square.sum() * channels)
      .to(torch::kFloat)
      .view({1, 1, kernel, kernel});
}

}  // namespace

Tensor l2_pool2d(const Tensor& x, const L2PoolOptions& options) {
  const auto size = static_cast<double>(options.kernel * options.kernel);
  const Tensor mean = torch::avg_pool2d(
      x.mul(x), {options.kernel, options.kernel},
      {options.stride, options.stride}, {options.padding, options.padding});
  return mean.mul(size).add(options.eps).sqrt();
}

LocalContrastNormImpl::LocalContrastNormImpl(
    const LocalContrastNormOptions& options)
    : options_(options) {
  SHEAF_CHECK(options.kernel % 2 == 1, "local contrast normalization has a ",
              "window of ", options.kernel, "; the size must be odd");
  SHEAF_CHECK(options.floor >= 0, "local contrast normalization has a floor ",
              "of ", options.floor, "; it must be at least 0");
  window_ = register_buffer("window",
                            gaussian_window(options.kernel, options.channels));
}

Tensor LocalContrastNormImpl::around(const Tensor& x) const {
  return torch::conv2d(x.sum(1, /*keepdim=*/true), window_, {}, 1,
                       options_.kernel / 2);
}

Tensor LocalContrastNormImpl::forward(const Tensor& x) {
  const Tensor centered = x - around(x);
  Tensor variance = around(centered.mul(centered));
  // Clamped before the square root, whose derivative at 0 is infinite.
  variance = options_.floor > 0
                 ? variance.clamp_min(options_.floor * options_.floor)
                 : variance.masked_fill(variance.le(0), 1);
  return centered / variance.sqrt();
}

}  // namespace sheaf::nn
