#pragma once
// Small networks as users write them.

#include <torch/torch.h>

#include "sheaf/nn/network.hpp"

namespace sheaf::spatial::test {

inline torch::nn::Conv2d conv3(std::int64_t in, std::int64_t out,
                               std::int64_t stride = 1) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, 3).padding(1).stride(stride));
}

// Two convolutions, each followed by pooling, and two linear layers.
struct ConvNetImpl : torch::nn::Module {
  torch::nn::Conv2d first{1, 4, 5}, second{4, 6, 5};
  torch::nn::Linear third{6 * 4 * 4, 20}, last{20, 10};
  ConvNetImpl() {
    register_module("first", first);
    register_module("second", second);
    register_module("third", third);
    register_module("last", last);
  }
  at::Tensor forward(at::Tensor x) {
    x = torch::max_pool2d(torch::relu(first(x)), 2);
    x = torch::max_pool2d(torch::relu(second(x)), 2);
    return last(torch::relu(third(x.view({x.size(0), -1}))));
  }
};

struct BlockImpl : torch::nn::Module {
  torch::nn::Conv2d first, second;
  torch::nn::BatchNorm2d norm1, norm2;
  torch::nn::Conv2d shortcut{nullptr};
  BlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride)
      : first(conv3(in, out, stride)),
        second(conv3(out, out)),
        norm1(out),
        norm2(out) {
    register_module("first", first);
    register_module("second", second);
    register_module("norm1", norm1);
    register_module("norm2", norm2);
    if (in != out || stride != 1)
      shortcut = register_module(
          "shortcut", torch::nn::Conv2d(
                          torch::nn::Conv2dOptions(in, out, 1).stride(stride)));
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = torch::relu(norm1(first(x)));
    y = norm2(second(y));
    y += shortcut ? shortcut(x) : x;
    return torch::relu(y);
  }
};
TORCH_MODULE(Block);

struct ResidualNetImpl : torch::nn::Module {
  torch::nn::Conv2d stem = conv3(1, 4);
  Block first{4, 4, 1}, second{4, 8, 2};
  torch::nn::Linear last{8, 10};
  ResidualNetImpl() {
    register_module("stem", stem);
    register_module("first", first);
    register_module("second", second);
    register_module("last", last);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = second(first(stem(x)));
    return last(torch::adaptive_avg_pool2d(y, {1, 1}).flatten(1));
  }
};

// A U-Net with odd intermediate sizes, which classifies pixels.
struct UNetImpl : torch::nn::Module {
  std::shared_ptr<nn::Network> net = nn::make_network(
      {"unet",
       {{"classes", "3"}, {"width", "4"}, {"depth", "2"}, {"norm", "group"}},
       {}});
  UNetImpl() { register_module("net", net); }
  at::Tensor forward(const at::Tensor& x) { return net->forward(x); }
};

}  // namespace sheaf::spatial::test
