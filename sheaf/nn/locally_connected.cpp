#include "sheaf/nn/locally_connected.hpp"

#include <torch/library.h>
#include <torch/torch.h>

#include <cmath>

#include "sheaf/base/error.hpp"

// Windows become columns, as for a convolution; then there is one small matrix
// product per position, all in one batched product.
namespace sheaf::nn {
namespace {

using at::IntArrayRef;
using at::Tensor;

constexpr std::int64_t kOnes[] = {1, 1};

// [out channels, window, rows, columns] -> [position, out channels, window].
Tensor by_position(const Tensor& weight) {
  return weight.flatten(2).permute({2, 0, 1});
}

// [batch, numbers, position] <-> [position, numbers, batch].
Tensor turned(const Tensor& x) { return x.permute({2, 1, 0}); }

Tensor connect(const Tensor& x, const Tensor& weight, IntArrayRef kernel,
               IntArrayRef stride, IntArrayRef padding) {
  const Tensor windows = at::im2col(x, kernel, kOnes, padding, stride);
  TORCH_CHECK(windows.size(1) == weight.size(1) &&
                  windows.size(2) == weight.size(2) * weight.size(3),
              "locally_connected2d: images of ", x.sizes(),
              " do not fit weights of ", weight.sizes());
  const Tensor y = at::bmm(by_position(weight), turned(windows));
  return turned(y).reshape(
      {x.size(0), weight.size(0), weight.size(2), weight.size(3)});
}

Tensor connect_transposed(const Tensor& y, const Tensor& weight,
                          IntArrayRef kernel, IntArrayRef stride,
                          IntArrayRef padding, IntArrayRef image) {
  const Tensor windows =
      at::bmm(by_position(weight).transpose(1, 2), turned(y.flatten(2)));
  return at::col2im(turned(windows).contiguous(), image, kernel, kOnes, padding,
                    stride);
}

std::int64_t windows_in(std::int64_t image, std::int64_t kernel,
                        std::int64_t stride, std::int64_t padding) {
  return (image + 2 * padding - kernel) / stride + 1;
}

}  // namespace

// A fragment: layers above may add operations of their own.
TORCH_LIBRARY_FRAGMENT(sheaf, library) {
  library.def(
      "locally_connected2d(Tensor x, Tensor weight, int[2] kernel, "
      "int[2] stride, int[2] padding) -> Tensor");
  library.def(
      "locally_connected2d_transposed(Tensor y, Tensor weight, int[2] kernel, "
      "int[2] stride, int[2] padding, int[2] image) -> Tensor");
}

TORCH_LIBRARY_IMPL(sheaf, CompositeImplicitAutograd, library) {
  library.impl("locally_connected2d", connect);
  library.impl("locally_connected2d_transposed", connect_transposed);
}

Tensor locally_connected2d(const Tensor& x, const Tensor& weight,
                           IntArrayRef kernel, IntArrayRef stride,
                           IntArrayRef padding) {
  static const auto operation =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("sheaf::locally_connected2d", "")
          .typed<decltype(connect)>();
  return operation.call(x, weight, kernel, stride, padding);
}

Tensor locally_connected2d_transposed(const Tensor& y, const Tensor& weight,
                                      IntArrayRef kernel, IntArrayRef stride,
                                      IntArrayRef padding, IntArrayRef image) {
  static const auto operation =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("sheaf::locally_connected2d_transposed", "")
          .typed<decltype(connect_transposed)>();
  return operation.call(y, weight, kernel, stride, padding, image);
}

void normalise_filters_(const Tensor& weight) {
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
              "; make it smaller, or the padding larger");
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

}  // namespace sheaf::nn
