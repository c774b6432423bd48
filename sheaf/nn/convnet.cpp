#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/nn/kinds.hpp"

// Two 5x5 convolutions with 20 and 50 channels, each followed by 2x2 max
// pooling, then linear layers of 500 and `classes` outputs. The convolutions
// have no activation; their only nonlinearity is the max pooling.
namespace sheaf::nn {
namespace {

constexpr std::int64_t kConvnetKernel = 5;
constexpr std::int64_t kHidden = 500;

std::int64_t after_conv_and_pool(std::int64_t size) {
  return (size - kConvnetKernel + 1) / 2;
}

torch::nn::Conv2d conv_layer(std::int64_t in, std::int64_t out, bool bias) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kConvnetKernel).bias(bias));
}

torch::nn::Linear linear_layer(std::int64_t in, std::int64_t out, bool bias) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(bias));
}

class Convnet : public Network {
 public:
  explicit Convnet(const Arguments& arguments) {
    const std::int64_t side = after_conv_and_pool(
        after_conv_and_pool(arguments.integer("image_size")));
    if (side < 1) arguments.refuse("image_size", "at least 16");
    const bool bias = arguments.flag("bias");
    conv1_ = register_module(
        "conv1", conv_layer(arguments.integer("in_channels"), 20, bias));
    conv2_ = register_module("conv2", conv_layer(20, 50, bias));
    fc1_ =
        register_module("fc1", linear_layer(50 * side * side, kHidden, bias));
    fc2_ = register_module(
        "fc2", linear_layer(kHidden, arguments.integer("classes"), bias));
  }

  at::Tensor forward(at::Tensor input) override {
    at::Tensor x = torch::max_pool2d(conv1_(input), 2);
    x = torch::max_pool2d(conv2_(x), 2).flatten(1);
    return fc2_(torch::relu(fc1_(x)));
  }

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::Linear fc1_{nullptr}, fc2_{nullptr};
};

}  // namespace

NetworkKind convnet_kind() {
  return {"convnet",
          {{"classes", "10"},
           {"in_channels", "1"},
           {"image_size", "28"},
           {"bias", "false"}},
          [](const Arguments& arguments) {
            return std::make_shared<Convnet>(arguments);
          }};
}

}  // namespace sheaf::nn
