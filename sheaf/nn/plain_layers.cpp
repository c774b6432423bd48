#include <torch/torch.h>

#include "sheaf/nn/layer.hpp"
#include "sheaf/nn/local_contrast.hpp"

// Layers without parameters and without a training mode.
namespace sheaf::nn {
namespace {

using Function = std::function<at::Tensor(const at::Tensor&)>;

LayerKind without_arguments(std::string_view name, Function function) {
  return {name, {}, [function](const Arguments&, const SampleShape&) {
            return Layer{nullptr, function};
          }};
}

// The default stride of pooling is the kernel size.
std::vector<std::int64_t> stride_of(const Arguments& a) {
  return a.text("stride") == "kernel" ? a.axes("kernel", 2)
                                      : a.axes("stride", 2);
}

Layer make_maxpool(const Arguments& a, const SampleShape&) {
  const auto kernel = a.axes("kernel", 2), stride = stride_of(a),
             padding = a.axes("padding", 2, 0);
  return {nullptr, [=](const at::Tensor& x) {
            return torch::max_pool2d(x, kernel, stride, padding);
          }};
}

Layer make_avgpool(const Arguments& a, const SampleShape&) {
  const auto kernel = a.axes("kernel", 2), stride = stride_of(a),
             padding = a.axes("padding", 2, 0);
  return {nullptr, [=](const at::Tensor& x) {
            return torch::avg_pool2d(x, kernel, stride, padding);
          }};
}

Layer make_l2_pool(const Arguments& a, const SampleShape&) {
  L2PoolOptions options;
  options.kernel = a.integer("kernel");
  options.stride = a.integer("stride");
  options.padding = a.integer("padding", 0);
  options.eps = a.real("eps");
  if (options.eps < 0) a.refuse("eps", "0 or more");
  return {nullptr, [=](const at::Tensor& x) { return l2_pool2d(x, options); }};
}

Layer make_adaptive_avgpool(const Arguments& a, const SampleShape&) {
  const auto output = a.axes("output", 2);
  return {nullptr, [=](const at::Tensor& x) {
            return torch::adaptive_avg_pool2d(x, output);
          }};
}

Layer make_flatten(const Arguments& a, const SampleShape&) {
  const auto start = a.integer("start");
  return {nullptr, [=](const at::Tensor& x) { return x.flatten(start); }};
}

Layer make_reshape(const Arguments& a, const SampleShape&) {
  auto shape = a.integers("shape");
  shape.insert(shape.begin(), -1);  // the batch
  return {nullptr, [=](const at::Tensor& x) { return x.reshape(shape); }};
}

Layer make_mean(const Arguments& a, const SampleShape&) {
  const auto axes = a.integers("axes");
  return {nullptr, [=](const at::Tensor& x) { return x.mean(axes); }};
}

Layer make_upsample(const Arguments& a, const SampleShape&) {
  const auto factor = a.axes("factor", 2);
  return {nullptr, [=](const at::Tensor& x) {
            return torch::upsample_nearest2d(
                x, {x.size(2) * factor[0], x.size(3) * factor[1]});
          }};
}

Layer make_leaky_relu(const Arguments& a, const SampleShape&) {
  const double slope = a.real("slope");
  return {nullptr,
          [=](const at::Tensor& x) { return torch::leaky_relu(x, slope); }};
}

}  // namespace

std::vector<LayerKind> plain_layers() {
  const std::vector<ArgumentSpec> pool{
      {"kernel", kRequired}, {"stride", "kernel"}, {"padding", "0"}};
  const auto over_features = [](auto function) {
    return [function](const at::Tensor& x) { return function(x, 1); };
  };
  return {
      without_arguments("relu", [](const auto& x) { return torch::relu(x); }),
      without_arguments("gelu", [](const auto& x) { return torch::gelu(x); }),
      without_arguments("silu", [](const auto& x) { return torch::silu(x); }),
      without_arguments("tanh", [](const auto& x) { return torch::tanh(x); }),
      without_arguments("sigmoid",
                        [](const auto& x) { return torch::sigmoid(x); }),
      without_arguments("softmax",
                        over_features([](const at::Tensor& x, int axis) {
                          return torch::softmax(x, axis);
                        })),
      without_arguments("log_softmax",
                        over_features([](const at::Tensor& x, int axis) {
                          return torch::log_softmax(x, axis);
                        })),
      {"leaky_relu", {{"slope", "0.01"}}, make_leaky_relu},
      {"maxpool", pool, make_maxpool},
      {"avgpool", pool, make_avgpool},
      {"l2_pool",
       {{"kernel", "3"}, {"stride", "1"}, {"padding", "0"}, {"eps", "1e-8"}},
       make_l2_pool},
      {"adaptive_avgpool", {{"output", "1"}}, make_adaptive_avgpool},
      {"flatten", {{"start", "1"}}, make_flatten},
      {"reshape", {{"shape", kRequired}}, make_reshape},
      {"mean", {{"axes", kRequired}}, make_mean},
      {"upsample", {{"factor", "2"}}, make_upsample}};
}

}  // namespace sheaf::nn
