#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/nn/kinds.hpp"

// The LeNet of the PyTorch tutorial: two 5x5 convolutions with 6 and 16
// channels, each followed by 2x2 max pooling, then linear layers of 120, 84 and
// `classes` outputs. 28x28 images are padded by 2 to 32x32, the size that the
// network was designed for.
namespace sheaf::nn {
namespace {

constexpr std::int64_t kKernel = 5;
constexpr std::int64_t kBorder28 = 2;

// The image size after a convolution and a pooling.
std::int64_t after_pooling(std::int64_t size) {
  return (size - kKernel + 1) / 2;
}

class LeNet : public Network {
 public:
  explicit LeNet(const Arguments& arguments) {
    const std::int64_t image = arguments.integer("image_size");
    const std::int64_t border = image == 28 ? kBorder28 : 0;
    const std::int64_t side = after_pooling(after_pooling(image + 2 * border));
    if (side < 1) arguments.refuse("image_size", "at least 16");
    conv1_ = register_module(
        "conv1",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(
                              arguments.integer("in_channels"), 6, kKernel)
                              .padding(border)));
    conv2_ = register_module("conv2", torch::nn::Conv2d(6, 16, kKernel));
    fc1_ = register_module("fc1", torch::nn::Linear(16 * side * side, 120));
    fc2_ = register_module("fc2", torch::nn::Linear(120, 84));
    fc3_ = register_module("fc3",
                           torch::nn::Linear(84, arguments.integer("classes")));
  }

  at::Tensor forward(at::Tensor input) override {
    auto x = torch::max_pool2d(torch::relu(conv1_(input)), 2);
    x = torch::max_pool2d(torch::relu(conv2_(x)), 2).flatten(1);
    return fc3_(torch::relu(fc2_(torch::relu(fc1_(x)))));
  }

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::Linear fc1_{nullptr}, fc2_{nullptr}, fc3_{nullptr};
};

}  // namespace

NetworkKind lenet_kind() {
  return {"lenet",
          {{"classes", "10"}, {"in_channels", "1"}, {"image_size", "28"}},
          [](const Arguments& arguments) {
            return std::make_shared<LeNet>(arguments);
          }};
}

}  // namespace sheaf::nn
