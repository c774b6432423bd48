#include <torch/torch.h>

#include <numeric>

#include "sheaf/nn/kinds.hpp"

// A U-Net after Ronneberger et al. (2015): stages of two 3x3 convolutions,
// `depth` downsampling steps by 2 and as many upsampling steps, with `width`
// channels at full resolution and twice as many after each downsampling. Skip
// connections concatenate the output of the encoder stage of the same size.
// Convolutions are padded, so each pixel has logits; the image size must be at
// least 2^depth.
namespace sheaf::nn {
namespace {

using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::ConvTranspose2d;
using torch::nn::Sequential;

void add_convolution(Sequential& stage, std::int64_t in, std::int64_t out,
                     const std::string& norm) {
  stage->push_back(
      Conv2d(Conv2dOptions(in, out, 3).padding(1).bias(norm == "none")));
  if (norm == "batch") stage->push_back(torch::nn::BatchNorm2d(out));
  if (norm == "group")
    stage->push_back(torch::nn::GroupNorm(
        torch::nn::GroupNormOptions(std::gcd(out, std::int64_t{8}), out)));
  stage->push_back(torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)));
}

Sequential make_stage(std::int64_t in, std::int64_t out,
                      const std::string& norm) {
  Sequential stage;
  add_convolution(stage, in, out, norm);
  add_convolution(stage, out, out, norm);
  return stage;
}

// Concatenates the upsampled tensor with the skip connection. After an odd size
// was halved and doubled, one pixel is missing and padded with zeros.
at::Tensor skip_to(at::Tensor doubled, const at::Tensor& seen) {
  const std::int64_t rows = seen.size(2) - doubled.size(2);
  const std::int64_t columns = seen.size(3) - doubled.size(3);
  if (rows > 0 || columns > 0)
    doubled = torch::constant_pad_nd(doubled, {0, columns, 0, rows});
  return torch::cat({doubled, seen}, 1);
}

class UNet : public Network {
 public:
  explicit UNet(const Arguments& arguments) {
    const std::string& norm =
        arguments.choice("norm", {"batch", "group", "none"});
    const std::int64_t depth = arguments.integer("depth");
    std::int64_t maps = arguments.integer("width");
    add_down(0, make_stage(arguments.integer("in_channels"), maps, norm));
    for (std::int64_t level = 1; level <= depth; ++level, maps *= 2)
      add_down(level, make_stage(maps, 2 * maps, norm));
    for (std::int64_t level = depth; level-- > 0;) {
      maps /= 2;
      add_up(level, maps, make_stage(2 * maps, maps, norm));
    }
    head_ =
        register_module("head", Conv2d(maps, arguments.integer("classes"), 1));
  }

  at::Tensor forward(at::Tensor x) override {
    std::vector<at::Tensor> seen;
    for (auto& stage : down_) {
      if (!seen.empty()) x = torch::max_pool2d(seen.back(), 2);
      seen.push_back(stage->forward(x));
    }
    x = seen.back();
    for (std::size_t i = 0; i < up_.size(); ++i) {
      seen.pop_back();
      x = join_[i]->forward(skip_to(up_[i](x), seen.back()));
    }
    return head_(x);
  }

 private:
  void add_down(std::int64_t level, Sequential stage) {
    down_.push_back(
        register_module("down" + std::to_string(level), std::move(stage)));
  }
  void add_up(std::int64_t level, std::int64_t maps, Sequential stage) {
    up_.push_back(register_module(
        "up" + std::to_string(level),
        ConvTranspose2d(
            torch::nn::ConvTranspose2dOptions(2 * maps, maps, 2).stride(2))));
    join_.push_back(
        register_module("join" + std::to_string(level), std::move(stage)));
  }

  std::vector<Sequential> down_, join_;
  std::vector<ConvTranspose2d> up_;
  Conv2d head_{nullptr};
};

}  // namespace

NetworkKind unet_kind() {
  return {"unet",
          {{"classes", "2"},
           {"in_channels", "1"},
           {"width", "16"},
           {"depth", "3"},
           {"norm", "batch"}},
          [](const Arguments& arguments) {
            return std::make_shared<UNet>(arguments);
          }};
}

}  // namespace sheaf::nn
