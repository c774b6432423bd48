// Blocks on rows of features, and on sequences of them: they act on the last
// axis.

#include "plain/block.hpp"

namespace differential {
namespace {

bool has_features(const Shape& shape) {
  return shape.kind == Kind::kFlat || shape.kind == Kind::kSequence;
}

BlockPointer linear(BlockPlan& plan) {
  require(has_features(plan.in), "linear needs features");
  const std::int64_t in = plan.in.features();
  const std::int64_t out = plan.item.get("out", in);
  plan.out = plan.in;
  plan.out.sizes.back() = out;
  const bool is_bf16 = plan.item.has("bf16");
  if (plan.item.has("no_bias"))
    return make_block({{"weight", {out, in}}},
                      [=](auto& x, auto& p, auto& inputs) {
                        return product(x, p[0], {}, is_bf16, inputs.casts);
                      });
  return make_block({{"weight", {out, in}}, {"bias", {out}}},
                    [=](auto& x, auto& p, auto& inputs) {
                      return product(x, p[0], p[1], is_bf16, inputs.casts);
                    });
}

// Two products with the same weight, the second one transposed.
BlockPointer tied(BlockPlan& plan) {
  require(has_features(plan.in), "tied needs features");
  plan.out = plan.in;
  return make_block({{"weight", {plan.item.get("out", 3), plan.in.features()}}},
                    [](auto& x, auto& p, auto&) {
                      return torch::matmul(torch::tanh(torch::linear(x, p[0])),
                                           p[0]);
                    });
}

// Two halves of one parameter are used as two layers.
BlockPointer sliced(BlockPlan& plan) {
  require(has_features(plan.in), "sliced needs features");
  const std::int64_t out = plan.item.get("out", plan.in.features());
  plan.out = plan.in;
  plan.out.sizes.back() = out;
  return make_block(
      {{"weight", {2 * out, plan.in.features()}}},
      [=](auto& x, auto& p, auto&) {
        const auto gate = torch::linear(x, p[0].narrow(0, out, out));
        return torch::linear(x, p[0].narrow(0, 0, out)) * torch::sigmoid(gate);
      });
}

// The weight is a function of the parameters.
BlockPointer transformed(BlockPlan& plan) {
  require(has_features(plan.in), "transformed needs features");
  const std::int64_t in = plan.in.features();
  const std::int64_t out = plan.item.get("out", in);
  plan.out = plan.in;
  plan.out.sizes.back() = out;
  const std::int64_t way = plan.item.get("way");
  return make_block(
      {{"direction", {out, in}}, {"length", {out, 1}}},
      [=](auto& x, auto& p, auto&) {
        at::Tensor weight = torch::tanh(p[0]) * (1 + p[1]);
        if (way == 1)  // weight normalization
          weight =
              (1 + p[1]) * p[0] / (0.1 + p[0].square().sum(1, true)).sqrt();
        if (way == 2)  // the parameter itself, and a part of it again
          return torch::linear(x, p[0]) + x.narrow(-1, 0, 1) * p[1].squeeze(1) +
                 torch::linear(x.narrow(-1, 0, 1), p[0].narrow(1, 0, 1));
        return torch::linear(x, weight);
      });
}

// A parameter as the left factor of a product.
BlockPointer left(BlockPlan& plan) {
  require(plan.in.kind == Kind::kFlat, "left needs rows");
  const std::int64_t out = plan.item.get("out", plan.in.features());
  plan.out = plan.in;
  plan.out.sizes.back() = out;
  return make_block({{"weight", {out, plan.in.features()}}},
                    [](auto& x, auto& p, auto&) { return p[0].mm(x.t()).t(); });
}

// Parameters that are not factors of a product.
BlockPointer scale(BlockPlan& plan) {
  require(has_features(plan.in), "scale needs features");
  plan.out = plan.in;
  const std::int64_t size = plan.in.features();
  return make_block(
      {{"scale", {size}}, {"shift", {size}}},
      [](auto& x, auto& p, auto&) { return x * (1 + p[0]) + p[1]; });
}

// A layer that only some rows use: in some steps, some ranks have no such rows.
BlockPointer rare(BlockPlan& plan) {
  require(plan.in.kind == Kind::kFlat, "rare needs rows");
  plan.out = plan.in;
  const std::int64_t size = plan.in.features();
  return make_block({{"weight", {size, size}}, {"bias", {size}}},
                    [](auto& x, auto& p, auto&) {
                      const at::Tensor rows =
                          (x.detach().select(1, 0) > 0.7).nonzero().squeeze(1);
                      if (rows.numel() == 0) return x * 1.0;
                      return x.index_add(
                          0, rows,
                          torch::linear(x.index_select(0, rows), p[0], p[1]));
                    });
}

BlockPointer unused(BlockPlan& plan) {
  plan.out = plan.in;
  return make_block({{"weight", {plan.item.get("out", 3), 3}}},
                    [](auto& x, auto&, auto&) { return x; });
}

// Adds the output of a layer on the second input.
BlockPointer merge(BlockPlan& plan) {
  require(plan.in.kind == Kind::kFlat, "merge needs rows");
  plan.out = plan.in;
  const std::int64_t width = plan.item.get("width", 4);
  return make_block(
      {{"weight", {plan.in.features(), width}}},
      [=](auto& x, auto& p, const PassInputs& inputs) {
        require(!inputs.more.empty() && inputs.more[0].size(1) == width,
                "merge needs a second input");
        return x + torch::linear(inputs.more[0], p[0]);
      });
}

at::Tensor activate(const at::Tensor& x, std::int64_t function) {
  switch (function) {
    case 1:
      return torch::relu(x);
    case 2:
      return torch::sigmoid(x);
    case 3:
      return torch::gelu(x);
    case 4:
      return torch::softplus(x);
    case 5: {  // in place, on a tensor that backward no longer needs
      at::Tensor y = x * 1.5;
      return torch::relu_(y);
    }
    case 6:
      return torch::leaky_relu(x, 0.1);
    default:
      return torch::tanh(x);
  }
}

// function=7 changes the block's input in place, which may be the output of a
// layer.
BlockPointer activation(BlockPlan& plan) {
  require(plan.in.kind != Kind::kTokens, "act needs numbers");
  plan.out = plan.in;
  const std::int64_t function = plan.item.get("function");
  return make_block([=](auto& x, auto&, auto&) {
    if (function == 7 && x.grad_fn()) {
      at::Tensor y = x;
      return torch::relu_(y);
    }
    return activate(x, function == 7 ? 1 : function);
  });
}

BlockPointer layer_norm(BlockPlan& plan) {
  require(has_features(plan.in), "norm needs features");
  plan.out = plan.in;
  const std::int64_t size = plan.in.features();
  return make_block({{"norm_weight", {size}}, {"bias", {size}}},
                    [=](auto& x, auto& p, const PassInputs& inputs) {
                      return torch::layer_norm(
                          inputs.casts ? x.to(at::kFloat) : x, {size}, p[0],
                          p[1], 1e-2);
                    });
}

// Normalizes over the rows, with libtorch's module and buffers, which
// sync_batch_norm recognizes.
struct BatchNorm : Block {
  BatchNorm(const Shape& in) {
    if (in.kind == Kind::kFlat)
      rows = register_module(
          "norm", torch::nn::BatchNorm1d(
                      torch::nn::BatchNormOptions(in.features()).eps(1e-2)));
    else
      image = register_module(
          "norm", torch::nn::BatchNorm2d(
                      torch::nn::BatchNormOptions(in.sizes[0]).eps(1e-2)));
  }
  at::Tensor run(const at::Tensor& x, const PassInputs&) override {
    return rows ? rows(x) : image(x);
  }
  torch::nn::BatchNorm1d rows{nullptr};
  torch::nn::BatchNorm2d image{nullptr};
};

BlockPointer batch_norm(BlockPlan& plan) {
  require(plan.in.kind == Kind::kFlat ||
              (plan.in.kind == Kind::kImage && plan.in.sizes.size() == 3),
          "batch_norm needs rows or images");
  plan.out = plan.in;
  return std::make_shared<BatchNorm>(plan.in);
}

BlockPointer cat(BlockPlan& plan) {
  require(plan.in.kind != Kind::kTokens, "cat needs numbers");
  plan.out = plan.in;
  const bool is_image = plan.in.kind == Kind::kImage;
  (is_image ? plan.out.sizes.front() : plan.out.sizes.back()) *= 2;
  const std::int64_t axis = is_image ? 1 : -1;
  return make_block([=](auto& x, auto&, auto&) {
    return torch::cat({x, torch::tanh(x)}, axis);
  });
}

}  // namespace

void add_row_blocks(BlockTable& table) {
  table["linear"] = linear;
  table["tied"] = tied;
  table["sliced"] = sliced;
  table["transformed"] = transformed;
  table["left"] = left;
  table["scale"] = scale;
  table["rare"] = rare;
  table["unused"] = unused;
  table["merge"] = merge;
  table["act"] = activation;
  table["norm"] = layer_norm;
  table["batch_norm"] = batch_norm;
  table["cat"] = cat;
}

}  // namespace differential
