#include <torch/torch.h>

#include "sheaf/nn/kinds.hpp"

// Residual networks with the parameter names and initialization of torchvision.
// ImageNet variants begin with a 7x7 convolution and max pooling and have four
// stages; CIFAR variants begin with a 3x3 convolution and have three.
namespace sheaf::nn {
namespace {

using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;

struct Shape {
  std::vector<int> blocks;  // number of blocks per stage
  bool is_bottleneck = false;
  bool is_for_cifar = false;
};

Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel,
            std::int64_t stride) {
  return Conv2d(Conv2dOptions(in, out, kernel)
                    .stride(stride)
                    .padding(kernel / 2)
                    .bias(false));
}

struct BlockShape {
  std::int64_t in, width, out, stride;
  bool is_bottleneck;
};

// Two 3x3 convolutions, or a bottleneck of 1x1, 3x3 and 1x1, with a residual
// connection. As in torchvision, the 3x3 convolution of a bottleneck has the
// stride.
class ResidualBlock : public torch::nn::Module {
 public:
  explicit ResidualBlock(const BlockShape& shape) {
    if (shape.is_bottleneck) {
      add(shape.in, shape.width, 1, 1);
      add(shape.width, shape.width, 3, shape.stride);
      add(shape.width, shape.out, 1, 1);
    } else {
      add(shape.in, shape.width, 3, shape.stride);
      add(shape.width, shape.out, 3, 1);
    }
    if (shape.stride != 1 || shape.in != shape.out)
      downsample_ = register_module(
          "downsample",
          torch::nn::Sequential(conv(shape.in, shape.out, 1, shape.stride),
                                BatchNorm2d(shape.out)));
  }

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = input;
    for (std::size_t i = 0; i < convs_.size(); ++i) {
      x = norms_[i](convs_[i](x));
      if (i + 1 < convs_.size()) x = torch::relu_(x);
    }
    x = x + (downsample_ ? downsample_->forward(input) : input);
    return torch::relu_(x);
  }

  BatchNorm2d& last_norm() { return norms_.back(); }

 private:
  void add(std::int64_t in, std::int64_t out, std::int64_t kernel,
           std::int64_t stride) {
    const std::string number = std::to_string(convs_.size() + 1);
    convs_.push_back(
        register_module("conv" + number, conv(in, out, kernel, stride)));
    norms_.push_back(register_module("bn" + number, BatchNorm2d(out)));
  }

  std::vector<Conv2d> convs_;
  std::vector<BatchNorm2d> norms_;
  torch::nn::Sequential downsample_{nullptr};
};

class ResNet : public Network {
 public:
  ResNet(const Shape& shape, const Arguments& arguments)
      : is_for_cifar_(shape.is_for_cifar),
        is_channels_last_(arguments.flag("channels_last")) {
    std::int64_t width = arguments.integer("width");
    add_stem(arguments.integer("in_channels"), width);
    std::int64_t channels = width;
    for (std::size_t stage = 0; stage < shape.blocks.size(); ++stage) {
      add_stage(shape, stage, width, channels);
      width *= 2;
    }
    fc_ = register_module(
        "fc", torch::nn::Linear(channels, arguments.integer("classes")));
    start(arguments.flag("zero_init_residual"));
    if (is_channels_last_) use_channels_last(*this);
  }

  at::Tensor forward(at::Tensor input) override {
    if (is_channels_last_)
      input = input.contiguous(at::MemoryFormat::ChannelsLast);
    at::Tensor x = bn1_(conv1_(input)).relu_();
    if (!is_for_cifar_) x = torch::max_pool2d(x, 3, 2, 1);
    for (const auto& block : blocks_) x = block->forward(x);
    return fc_(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  void add_stem(std::int64_t in_channels, std::int64_t width) {
    conv1_ = register_module("conv1", is_for_cifar_
                                          ? conv(in_channels, width, 3, 1)
                                          : conv(in_channels, width, 7, 2));
    bn1_ = register_module("bn1", BatchNorm2d(width));
  }

  void add_stage(const Shape& shape, std::size_t stage, std::int64_t width,
                 std::int64_t& channels) {
    torch::nn::ModuleList list;
    const std::int64_t out = shape.is_bottleneck ? 4 * width : width;
    for (int i = 0; i < shape.blocks[stage]; ++i) {
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      const auto block = std::make_shared<ResidualBlock>(
          BlockShape{channels, width, out, stride, shape.is_bottleneck});
      channels = out;
      list->push_back(block);
      blocks_.push_back(block);
    }
    register_module("layer" + std::to_string(stage + 1), list);
  }

  void start(bool is_residual_zero) {
    for (const auto& module : modules(/*include_self=*/false))
      if (auto* conv = module->as<torch::nn::Conv2dImpl>())
        torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut,
                                         torch::kReLU);
    if (!is_residual_zero) return;
    for (const auto& block : blocks_)
      torch::nn::init::zeros_(block->last_norm()->weight);
  }

  bool is_for_cifar_;
  bool is_channels_last_;
  Conv2d conv1_{nullptr};
  BatchNorm2d bn1_{nullptr};
  std::vector<std::shared_ptr<ResidualBlock>> blocks_;
  torch::nn::Linear fc_{nullptr};
};

NetworkKind kind(std::string_view name, const Shape& shape) {
  return {name,
          {{"classes", shape.is_for_cifar ? "10" : "1000"},
           {"in_channels", "3"},
           {"width", shape.is_for_cifar ? "16" : "64"},
           {"zero_init_residual", "false"},
           {"channels_last", "false"}},
          [shape](const Arguments& arguments) {
            return std::make_shared<ResNet>(shape, arguments);
          }};
}

}  // namespace

std::vector<NetworkKind> resnet_kinds() {
  return {kind("resnet8", {{1, 1, 1}, false, true}),
          kind("resnet20", {{3, 3, 3}, false, true}),
          kind("resnet18", {{2, 2, 2, 2}, false, false}),
          kind("resnet34", {{3, 4, 6, 3}, false, false}),
          kind("resnet50", {{3, 4, 6, 3}, true, false}),
          kind("resnet101", {{3, 4, 23, 3}, true, false})};
}

}  // namespace sheaf::nn
