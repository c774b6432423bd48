// Blocks on images of one to three axes, and conversions to and from them.

#include "plain/block.hpp"

namespace differential {
namespace {

using Sizes = std::vector<std::int64_t>;

std::size_t axes_of(const Shape& shape) { return shape.sizes.size() - 1; }

void require_image(const BlockPlan& plan) {
  require(plan.in.kind == Kind::kImage, plan.item.kind + " needs an image");
}

struct Window {
  std::int64_t kernel, stride, padding, dilation;

  std::int64_t out(std::int64_t size) const {
    return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  }
};

Window window_of(const Item& item) {
  return {item.get("kernel", 3), item.get("stride", 1), item.get("padding"),
          item.get("dilation", 1)};
}

void set_windows(BlockPlan& plan, const Window& window) {
  plan.out = plan.in;
  for (std::size_t i = 1; i < plan.in.sizes.size(); ++i) {
    plan.out.sizes[i] = window.out(plan.in.sizes[i]);
    require(plan.in.sizes[i] + 2 * window.padding >=
                    window.dilation * (window.kernel - 1) + 1 &&
                plan.out.sizes[i] >= 1,
            "the window is larger than the image");
  }
}

BlockPointer convolution(BlockPlan& plan) {
  require_image(plan);
  const Window window = window_of(plan.item);
  const std::int64_t groups = plan.item.get("groups", 1);
  const std::int64_t in = plan.in.sizes[0];
  const std::int64_t out = plan.item.get("out", in);
  require(in % groups == 0 && out % groups == 0, "groups do not divide");
  set_windows(plan, window);
  plan.out.sizes[0] = out;
  const std::size_t axes = axes_of(plan.in);
  Sizes weight{out, in / groups};
  weight.insert(weight.end(), axes, window.kernel);
  const Sizes stride(axes, window.stride), padding(axes, window.padding),
      dilation(axes, window.dilation), none(axes, 0);
  const bool is_bf16 = plan.item.has("bf16");
  return make_block({{"weight", weight}, {"bias", {out}}},
                    [=](auto& x, auto& p, const PassInputs& inputs) {
                      const auto type = !inputs.casts ? x.scalar_type()
                                        : is_bf16     ? at::kBFloat16
                                                      : at::kFloat;
                      const auto cast = [&](const at::Tensor& one) {
                        return inputs.casts ? one.to(type) : one;
                      };
                      return at::convolution(cast(x), cast(p[0]), cast(p[1]),
                                             stride, padding, dilation, false,
                                             none, groups);
                    });
}

BlockPointer transposed(BlockPlan& plan) {
  require_image(plan);
  const Window window = window_of(plan.item);
  const std::int64_t in = plan.in.sizes[0];
  const std::int64_t out = plan.item.get("out", in);
  const std::size_t axes = axes_of(plan.in);
  plan.out = plan.in;
  plan.out.sizes[0] = out;
  for (std::size_t i = 1; i <= axes; ++i) {
    plan.out.sizes[i] = (plan.in.sizes[i] - 1) * window.stride -
                        2 * window.padding + window.kernel;
    require(plan.out.sizes[i] >= 1, "transposed leaves nothing");
  }
  Sizes weight{in, out};
  weight.insert(weight.end(), axes, window.kernel);
  const Sizes stride(axes, window.stride), padding(axes, window.padding),
      one(axes, 1), none(axes, 0);
  return make_block({{"weight", weight}, {"bias", {out}}}, [=](auto& x, auto& p,
                                                               auto&) {
    return at::convolution(x, p[0], p[1], stride, padding, one, true, none, 1);
  });
}

at::Tensor max_pool(const at::Tensor& x, const Sizes& kernel,
                    const Sizes& stride, const Sizes& padding) {
  const Sizes one(kernel.size(), 1);
  if (kernel.size() == 1)
    return at::max_pool1d(x, kernel, stride, padding, one, false);
  if (kernel.size() == 2)
    return at::max_pool2d(x, kernel, stride, padding, one, false);
  return at::max_pool3d(x, kernel, stride, padding, one, false);
}

at::Tensor mean_pool(const at::Tensor& x, const Sizes& kernel,
                     const Sizes& stride, const Sizes& padding) {
  if (kernel.size() == 1) return at::avg_pool1d(x, kernel, stride, padding);
  if (kernel.size() == 2) return at::avg_pool2d(x, kernel, stride, padding);
  return at::avg_pool3d(x, kernel, stride, padding);
}

BlockPointer pool(BlockPlan& plan) {
  require_image(plan);
  Window window = window_of(plan.item);
  window.dilation = 1;
  require(2 * window.padding <= window.kernel, "pads of more than half");
  set_windows(plan, window);
  const std::size_t axes = axes_of(plan.in);
  const Sizes kernel(axes, window.kernel), stride(axes, window.stride),
      padding(axes, window.padding);
  const bool is_mean = plan.item.has("mean");
  for (std::size_t i = 1; i <= axes && axes == 3 && is_mean; ++i)
    require(plan.in.sizes[i] >= window.kernel, "avg_pool3d counts no pads");
  return make_block([=](auto& x, auto&, auto&) {
    return is_mean ? mean_pool(x, kernel, stride, padding)
                   : max_pool(x, kernel, stride, padding);
  });
}

BlockPointer adaptive(BlockPlan& plan) {
  require_image(plan);
  const std::size_t axes = axes_of(plan.in);
  require(axes <= 2, "adaptive needs one or two axes");
  const Sizes size(axes, plan.item.get("size", 2));
  plan.out = plan.in;
  for (std::size_t i = 1; i <= axes; ++i) plan.out.sizes[i] = size[0];
  return make_block([=](auto& x, auto&, auto&) {
    return axes == 1 ? at::adaptive_avg_pool1d(x, size)
                     : at::adaptive_avg_pool2d(x, size);
  });
}

// Resizes to given sizes, or by a factor in hundredths.
BlockPointer resize(BlockPlan& plan) {
  require_image(plan);
  const std::size_t axes = axes_of(plan.in);
  require(axes <= 2, "resize needs one or two axes");
  const std::int64_t hundredths = plan.item.get("factor");
  plan.out = plan.in;
  for (std::size_t i = 1; i <= axes; ++i)
    plan.out.sizes[i] = hundredths ? plan.in.sizes[i] * hundredths / 100
                                   : plan.item.get(i == 1 ? "height" : "width",
                                                   plan.in.sizes[i]);
  for (const std::int64_t size : plan.out.sizes)
    require(size >= 1, "resize leaves nothing");
  const Sizes size(plan.out.sizes.begin() + 1, plan.out.sizes.end());
  const double factor = static_cast<double>(hundredths) / 100;
  const bool is_linear = plan.item.has("linear");
  return make_block([=](auto& x, auto&, auto&) {
    namespace F = torch::nn::functional;
    auto options = F::InterpolateFuncOptions();
    if (hundredths)
      options.scale_factor(std::vector<double>(axes, factor))
          .recompute_scale_factor(false);
    else
      options.size(size);
    if (!is_linear) return F::interpolate(x, options.mode(torch::kNearest));
    options.align_corners(false);
    if (axes == 1) return F::interpolate(x, options.mode(torch::kLinear));
    return F::interpolate(x, options.mode(torch::kBilinear));
  });
}

BlockPointer group_norm(BlockPlan& plan) {
  require_image(plan);
  plan.out = plan.in;
  const std::int64_t channels = plan.in.sizes[0];
  const std::int64_t groups = channels % 2 == 0 ? 2 : 1;
  return make_block({{"norm_weight", {channels}}, {"bias", {channels}}},
                    [=](auto& x, auto& p, auto&) {
                      return at::group_norm(x, groups, p[0], p[1], 1e-2);
                    });
}

BlockPointer to_image(BlockPlan& plan) {
  const std::int64_t channels = plan.item.get("channels", 1);
  const std::int64_t height = plan.item.get("height", 2);
  require(plan.in.kind == Kind::kFlat &&
              plan.in.features() % (channels * height) == 0,
          "to_image needs rows that divide");
  const std::int64_t width = plan.in.features() / (channels * height);
  plan.out = {Kind::kImage, {channels, height, width}};
  return make_block([=](auto& x, auto&, auto&) {
    return x.reshape({x.size(0), channels, height, width});
  });
}

BlockPointer flatten(BlockPlan& plan) {
  require(plan.in.kind != Kind::kTokens, "flatten needs numbers");
  plan.out = {Kind::kFlat, {plan.in.elements()}};
  return make_block([](auto& x, auto&, auto&) { return x.flatten(1); });
}

BlockPointer pad(BlockPlan& plan) {
  require_image(plan);
  const std::int64_t by = plan.item.get("by", 1);
  plan.out = plan.in;
  for (std::size_t i = 1; i < plan.out.sizes.size(); ++i)
    plan.out.sizes[i] += 2 * by;
  const Sizes pads(2 * axes_of(plan.in), by);
  return make_block(
      [=](auto& x, auto&, auto&) { return at::constant_pad_nd(x, pads, 0.5); });
}

// Removes the first and the last line.
BlockPointer crop(BlockPlan& plan) {
  require_image(plan);
  require(plan.in.sizes[1] > 2, "crop leaves nothing");
  plan.out = plan.in;
  plan.out.sizes[1] -= 2;
  const std::int64_t size = plan.out.sizes[1];
  return make_block(
      [=](auto& x, auto&, auto&) { return x.narrow(2, 1, size); });
}

// Operations on a flattened image other than products. The last block of a
// network.
BlockPointer flat_use(BlockPlan& plan) {
  require_image(plan);
  const std::int64_t elements = plan.in.elements();
  const std::int64_t way = plan.item.get("way");
  plan.out = {Kind::kFlat, {way == 1 ? 2 * elements : elements}};
  return make_block([=](auto& x, auto&, auto&) {
    const at::Tensor flat = x.flatten(1);
    if (way == 1) return torch::cat({flat, torch::tanh(x).flatten(1)}, 1);
    if (way == 2) return flat[0];
    if (way == 3) return flat.squeeze(0);
    return flat.select(1, 0);
  });
}

// Sums, products and concatenations that write into a tensor of the caller.
BlockPointer into(BlockPlan& plan) {
  require_image(plan);
  plan.out = plan.in;
  const std::int64_t way = plan.item.get("way");
  return make_block([=](auto& x, auto&, auto&) {
    const at::NoGradGuard no_grad;
    at::Tensor whole = torch::zeros(x.sizes(), x.options());
    const at::Tensor given = x.detach();
    if (way == 1) {
      at::Tensor sum = torch::zeros({x.size(0), x.size(1)}, x.options());
      Sizes axes;
      for (std::int64_t axis = 2; axis < x.dim(); ++axis) axes.push_back(axis);
      at::sum_out(sum, given, axes);
      return whole + sum.mean();
    }
    if (way == 2)
      at::mul_out(whole, given, given);
    else
      at::add_out(whole, given, given);
    return whole;
  });
}

}  // namespace

void add_image_blocks(BlockTable& table) {
  table["conv"] = convolution;
  table["deconv"] = transposed;
  table["pool"] = pool;
  table["adaptive"] = adaptive;
  table["resize"] = resize;
  table["group_norm"] = group_norm;
  table["to_image"] = to_image;
  table["flatten"] = flatten;
  table["pad"] = pad;
  table["crop"] = crop;
  table["flat_use"] = flat_use;
  table["into"] = into;
}

}  // namespace differential
