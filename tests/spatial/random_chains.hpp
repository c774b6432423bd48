#pragma once
// Random chains of operations on images, some of which are smaller than the
// grid. The same seed gives the same chains in every process.

#include <torch/torch.h>

#include "tests/spatial/random_cases.hpp"

namespace sheaf::spatial::test {

using Step = std::function<at::Tensor(const at::Tensor&)>;
struct NamedStep {
  std::string name;
  Step step;
};

// Operations for an image of these sizes; the caller filters out those that
// fail in a single process.
inline NamedStep random_step(Dice& dice, const at::Tensor& now) {
  namespace F = torch::nn::functional;
  const std::int64_t channels = now.size(1), rows = now.size(2),
                     columns = now.size(3);
  const auto seed = static_cast<std::uint64_t>(dice.in(100, 10000));
  const std::int64_t a = dice.in(1, 4), b = dice.in(1, 4), c = dice.in(1, 3),
                     d = dice.in(0, 2);
  const bool is_on = dice.in(0, 1) == 1;
  const double factor = dice.one_of<double>({0.5, 0.7, 1.3, 1.5, 2.0, 2.01});
  const auto weight = [=](std::vector<std::int64_t> sizes,
                          const at::Tensor& like) {
    return random(sizes, like.scalar_type(), seed);
  };
  // Makes values distinct, because rounding would otherwise decide which one is
  // the maximum.
  const auto spread = [=](const at::Tensor& x) {
    return x + weight({1, 1, x.size(2), x.size(3)}, x);
  };
  switch (dice.in(0, 20)) {
    case 0:
      return {concat("conv ", a, "x", b, " stride ", c, " padding ", d),
              [=](const at::Tensor& x) {
                return at::conv2d(x, weight({2, channels, a, b}, x), {}, c, d);
              }};
    case 1:
      return {
          concat("conv same ", a, "x", b), [=](const at::Tensor& x) {
            return at::conv2d(x, weight({2, channels, a, b}, x), {}, 1, "same");
          }};
    case 2:
      return {concat("transposed ", a, "x", b, " stride ", c),
              [=](const at::Tensor& x) {
                return spread(at::conv_transpose2d(
                    x, weight({channels, 2, a, b}, x), {}, c));
              }};
    case 3:
      return {
          concat("max pool ", a, "x", b, " stride ", c, is_on ? " ceil" : ""),
          [=](const at::Tensor& x) {
            return at::max_pool2d(x, {a, b}, {c, c}, {a / 2, b / 2}, 1, is_on);
          }};
    case 4:
      return {
          concat("average pool ", a + 2, " stride ", c + 1, " ceil"),
          [=](const at::Tensor& x) {
            return at::avg_pool2d(x, {a + 2, b}, {c + 1, c}, 0, true, is_on);
          }};
    case 5:
      return {concat("nearest ", rows, "x", columns, " by ", factor),
              [=](const at::Tensor& x) {
                return spread(F::interpolate(
                    x, F::InterpolateFuncOptions()
                           .scale_factor(std::vector<double>{factor, factor})
                           .recompute_scale_factor(false)
                           .mode(torch::kNearest)));
              }};
    case 6:
      return {concat("nearest to ", rows + d, "x", 2 * columns + a),
              [=](const at::Tensor& x) {
                return spread(
                    at::upsample_nearest2d(x, {rows + d, 2 * columns + a}));
              }};
    case 7:
      return {concat("bilinear to ", a + rows, "x", b + columns),
              [=](const at::Tensor& x) {
                return spread(
                    at::upsample_bilinear2d(x, {a + rows, b + columns}, is_on));
              }};
    case 8:
      return {concat("pad ", a, " ", d, " ", b), [=](const at::Tensor& x) {
                return spread(at::constant_pad_nd(x, {a, d, 0, b}, 0.5));
              }};
    case 9:
      return {"local response", [=](const at::Tensor& x) {
                return F::local_response_norm(
                    x, F::LocalResponseNormFuncOptions(a));
              }};
    case 10:
      return {concat("rows from ", d), [=](const at::Tensor& x) {
                return x.slice(2, d).slice(3, 0, columns - d);
              }};
    case 11:
      return {"prelu", [=](const at::Tensor& x) {
                return at::prelu(x, weight({channels}, x));
              }};
    case 12:
      return {"softmax", [](const at::Tensor& x) { return x.softmax(1); }};
    case 13:
      return {"logsumexp", [](const at::Tensor& x) {
                return at::cat({x, at::logsumexp(x, {1}, true)}, 1);
              }};
    case 14:
      return {concat("top ", a),
              [=](const at::Tensor& x) { return std::get<0>(x.topk(a, 1)); }};
    case 15:
      return {"max over channels", [](const at::Tensor& x) {
                return x - std::get<0>(x.max(1)).unsqueeze(1);
              }};
    case 16:
      return {"larger of two",
              [](const at::Tensor& x) { return at::max(x, x.square() - 0.3); }};
    case 17:
      return {"channels to samples", [](const at::Tensor& x) {
                return x.reshape({-1, 1, x.size(2), x.size(3)});
              }};
    case 18:
      return {"group norm",
              [](const at::Tensor& x) { return at::group_norm(x, 1); }};
    case 19:
      return {concat("adaptive to ", a, "x", b), [=](const at::Tensor& x) {
                return spread(at::adaptive_avg_pool2d(x, {a, b}));
              }};
    default:
      return {"in place", [](const at::Tensor& x) {
                at::Tensor y = x * 1.5;
                y.add_(x);
                return y.mul_(0.5);
              }};
  }
}

// The image itself, a loss, or features.
inline NamedStep random_end(Dice& dice, const at::Tensor& now) {
  namespace F = torch::nn::functional;
  const std::vector<std::int64_t> sizes = now.sizes().vec();
  const std::int64_t features = sizes[1] * sizes[2] * sizes[3];
  switch (dice.in(0, 4)) {
    case 0:
      return {"mean", [](const at::Tensor& x) { return x.square().mean(); }};
    case 1:
      return {"linear", [=](const at::Tensor& x) {
                return at::linear(x.flatten(1),
                                  random({3, features}, x.scalar_type(), 7));
              }};
    case 2:
      return {"cross entropy", [=](const at::Tensor& x) {
                const at::Tensor drawn =
                    random({sizes[0], sizes[2], sizes[3]}, at::kDouble, 8);
                const at::Tensor target =
                    drawn.abs()
                        .clamp_max(static_cast<double>(sizes[1]) - 0.1)
                        .to(at::kLong)
                        .masked_fill_(drawn > 1, 255);
                target[0][0][0] = 0;
                return F::cross_entropy(
                    x, target,
                    F::CrossEntropyFuncOptions().ignore_index(255).weight(
                        random({sizes[1]}, x.scalar_type(), 9).abs() + 0.1));
              }};
    case 3:
      return {"flat sum", [](const at::Tensor& x) {
                return x.flatten(1).relu().sum(at::IntArrayRef({0, 1}), true);
              }};
    default:
      return {"image", [](const at::Tensor& x) { return x; }};
  }
}

inline Case random_chain(Dice& dice, int number) {
  const std::vector<std::int64_t> input{dice.in(1, 2), dice.in(1, 3),
                                        dice.in(1, 9), dice.in(1, 9)};
  std::string name = concat(number, ": ", at::IntArrayRef(input));
  std::vector<Step> steps;
  at::Tensor now = random(input, at::kDouble, 1);
  const std::int64_t wanted = dice.in(2, 5);
  for (int tries = 0;
       static_cast<std::int64_t>(steps.size()) < wanted && tries < 50;
       ++tries) {
    const NamedStep next = random_step(dice, now);
    try {
      const at::Tensor made = next.step(now);
      if (made.numel() == 0 || made.numel() > 3000) continue;
      now = made;
    } catch (const c10::Error&) {
      continue;
    }
    name += ", " + next.name;
    steps.push_back(next.step);
  }
  const NamedStep end = random_end(dice, now);
  steps.push_back(end.step);
  return {name + ", " + end.name,
          input,
          {},
          [steps](const at::Tensor& x, const Tensors&) {
            at::Tensor y = x;
            for (const Step& step : steps) y = step(y);
            return y;
          }};
}

inline std::vector<Case> random_chains(unsigned seed, int count) {
  Dice dice(seed);
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i) cases.push_back(random_chain(dice, i));
  return cases;
}

}  // namespace sheaf::spatial::test
