#include "sheaf/nn/locally_connected.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/nn/local_contrast.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::nn {
namespace {

using at::Tensor;

struct LocalCase {
  std::int64_t channels, maps;
  Pair image, kernel, stride, padding;
};

const std::vector<LocalCase> kCases{
    {1, 1, {4, 4}, {4, 4}, {1, 1}, {0, 0}},
    {2, 3, {7, 5}, {3, 2}, {1, 1}, {0, 0}},
    {3, 2, {8, 9}, {3, 3}, {2, 3}, {1, 0}},
    {2, 4, {6, 5}, {5, 4}, {3, 2}, {2, 1}},
    {1, 2, {5, 6}, {1, 1}, {1, 1}, {0, 0}},
    {2, 1, {4, 5}, {3, 3}, {1, 2}, {0, 1}},
};

LocallyConnected2d layer_of(const LocalCase& a, bool bias = false) {
  LocallyConnected2d layer(LocallyConnectedOptions{
      a.channels, a.maps, a.image, a.kernel, a.stride, a.padding, bias});
  layer->to(torch::kDouble);
  return layer;
}

Tensor image_of(const LocalCase& a, std::int64_t batch = 2) {
  return torch::randn({batch, a.channels, a.image[0], a.image[1]},
                      torch::kDouble);
}

// Largest difference between the gradient by autograd and by central
// differences, over all elements of `at`. For quadratic functions and a step of
// 1e-5, rounding and truncation errors are about 1e-8.
double slope_error(const std::function<Tensor(const Tensor&)>& function,
                   const Tensor& at) {
  const Tensor variable = at.clone().requires_grad_();
  const Tensor slope =
      torch::autograd::grad({function(variable)}, {variable})[0];
  double largest = 0;
  for (std::int64_t i = 0; i < at.numel(); ++i) {
    Tensor step = torch::zeros_like(at);
    step.view(-1)[i] = 1e-5;
    const double measured =
        (function(at + step) - function(at - step)).item<double>() / 2e-5;
    const double error =
        std::abs(measured - slope.reshape(-1)[i].item<double>());
    if (!(error <= largest)) largest = error;  // keeps NaN
    if (std::isnan(largest)) break;
  }
  return largest;
}

TEST(LocallyConnected, WithOneFilterForAllItIsAConvolution) {
  for (const LocalCase& a : kCases) {
    auto layer = layer_of(a);
    const Pair output = layer->output_image();
    const Tensor filters = torch::randn(
        {a.maps, a.channels, a.kernel[0], a.kernel[1]}, torch::kDouble);
    const Tensor shared = filters.flatten(1).unsqueeze(-1).unsqueeze(-1).expand(
        {-1, -1, output[0], output[1]});
    const Tensor x = image_of(a);
    const Tensor y = torch::conv2d(x, filters, {}, a.stride, a.padding);
    EXPECT_TRUE(torch::allclose(layer->encode(x, shared), y, 1e-12, 1e-12));
    const Tensor back = torch::autograd::grad(
        {torch::conv2d(x.requires_grad_(), filters, {}, a.stride, a.padding)},
        {x}, {y})[0];
    EXPECT_TRUE(torch::allclose(layer->decode(y, shared), back, 1e-12, 1e-12));
  }
}

TEST(LocallyConnected, EveryPlaceHasItsOwnFilter) {
  const LocalCase& a = kCases[1];
  auto layer = layer_of(a, /*bias=*/true);
  const Tensor x = image_of(a), before = layer->forward(x).clone();
  {
    const torch::NoGradGuard no_grad;
    layer->weight.index({2, torch::indexing::Slice(), 1, 3}) += 1;
    layer->bias[0][0][0] += 5;
  }
  const Tensor changed = (layer->forward(x) - before).abs().gt(1e-9);
  EXPECT_EQ(changed.sum().item<std::int64_t>(), 2 * 2);  // two images
  EXPECT_TRUE(changed[0][2][1][3].item<bool>());
  EXPECT_TRUE(changed[0][0][0][0].item<bool>());
}

// <A x, y> = <x, A' y>.
TEST(LocallyConnected, TransposedIsTheAdjoint) {
  for (const LocalCase& a : kCases) {
    auto layer = layer_of(a);
    const Tensor x = image_of(a), y = torch::randn_like(layer->forward(x));
    const double there = (layer->forward(x) * y).sum().item<double>();
    const double back =
        (x * layer->decode(y, layer->weight)).sum().item<double>();
    EXPECT_NEAR(there, back, 1e-11);
  }
}

TEST(LocallyConnected, GradientsAreSlopes) {
  for (const LocalCase& a : kCases) {
    auto layer = layer_of(a);
    const Tensor weight = layer->weight.detach(), x = image_of(a, 1);
    const Tensor y =
        torch::randn(layer->encode(x, weight).sizes(), torch::kDouble);
    const auto square = [](const Tensor& t) { return t.mul(t).sum(); };
    EXPECT_LT(
        slope_error(
            [&](const Tensor& t) { return square(layer->encode(t, weight)); },
            x),
        1e-6);
    EXPECT_LT(slope_error(
                  [&](const Tensor& t) { return square(layer->encode(x, t)); },
                  weight),
              1e-6);
    EXPECT_LT(
        slope_error(
            [&](const Tensor& t) { return square(layer->decode(t, weight)); },
            y),
        1e-6);
    EXPECT_LT(slope_error(
                  [&](const Tensor& t) { return square(layer->decode(y, t)); },
                  weight),
              1e-6);
  }
}

TEST(LocallyConnected, FiltersGetLengthOne) {
  auto layer = layer_of(kCases[1]);
  {
    const torch::NoGradGuard no_grad;
    layer->weight.index({1, torch::indexing::Slice(), 0, 0}) = 0;
  }
  normalize_filters_(layer->weight);
  Tensor lengths = layer->weight.detach().norm(2, {1});
  EXPECT_EQ(lengths[1][0][0].item<double>(), 0);
  lengths[1][0][0] = 1;
  EXPECT_TRUE(torch::allclose(lengths, torch::ones_like(lengths), 0, 1e-14));
}

// With orthonormal filters that span the windows, each window is decoded to
// itself.
TEST(LocallyConnected, CoverageCountsTheWindowsOnAPixel) {
  LocalCase a = kCases[2];
  a.maps = a.channels * a.kernel[0] * a.kernel[1];
  const auto layer = layer_of(a);
  const Tensor weight = torch::eye(a.maps, torch::kDouble)
                            .view({a.maps, a.maps, 1, 1})
                            .expand_as(layer->weight)
                            .contiguous();
  const Tensor x = image_of(a);
  EXPECT_EQ(layer->coverage().sizes(), (Pair{1, 1, 8, 9}));
  EXPECT_TRUE(torch::allclose(layer->decode(layer->encode(x, weight), weight),
                              x * layer->coverage(), 1e-14, 1e-14));
  EXPECT_EQ(layer->coverage()[0][0][1][0].item<double>(), 2);
}

TEST(LocallyConnected, ATooLargeKernelIsRefused) {
  for (const Pair& kernel : {Pair{4, 4}, Pair{4, 3}, Pair{3, 4}})
    expect_throws<UsageError>(
        [&] {
          layer_of({1, 1, {3, 3}, kernel, {1, 1}, {0, 0}});
        },
        {concat("a kernel of ", at::IntArrayRef(kernel)), "[3, 3]"});
}

// Uniform, up to 1 / sqrt(inputs of a window). Of 1152 weights and of 32 biases
// some are in the outer half of the range.
TEST(LocallyConnected, StartsAsAConvolutionDoes) {
  const auto layer = layer_of({4, 8, {4, 4}, {3, 3}, {1, 1}, {0, 0}}, true);
  const double bound = 1.0 / 6;
  for (const Tensor& start : {layer->weight, layer->bias}) {
    const double largest = start.abs().max().item<double>();
    EXPECT_LE(largest, static_cast<float>(bound));
    EXPECT_GT(largest, bound / 2);
    EXPECT_LT(start.min().item<double>(), 0);
  }
}

TEST(L2Pool, IsTheLengthOfTheWindow) {
  const Tensor x = torch::randn({2, 3, 5, 6}, torch::kDouble);
  const Tensor y = l2_pool2d(x, {.eps = 0});
  EXPECT_EQ(y.sizes(), (Pair{2, 3, 3, 4}));
  EXPECT_NEAR(y[1][2][1][3].item<double>(),
              x[1][2].slice(0, 1, 4).slice(1, 3, 6).norm().item<double>(),
              1e-12);
  EXPECT_LT(slope_error([](const Tensor& t) { return l2_pool2d(t).sum(); }, x),
            1e-6);
  const Tensor zeros = torch::zeros({1, 1, 3, 3}).requires_grad_();
  l2_pool2d(zeros).sum().backward();
  EXPECT_TRUE(zeros.grad().isfinite().all().item<bool>());
}

// Directly from the definition, position by position.
Tensor plain_contrast(const Tensor& x, std::int64_t kernel, double floor) {
  const auto radius = kernel / 2;
  const double deviation = static_cast<double>(radius) / 3;
  const auto weight = [&](std::int64_t i, std::int64_t j) {
    return std::exp(-0.5 * static_cast<double>(i * i + j * j) /
                    (deviation * deviation));
  };
  double sum = 0;
  for (std::int64_t i = -radius; i <= radius; ++i)
    for (std::int64_t j = -radius; j <= radius; ++j) sum += weight(i, j);
  sum *= static_cast<double>(x.size(0));
  const auto mean_of = [&](const Tensor& t) {
    Tensor result = torch::zeros({t.size(1), t.size(2)}, torch::kDouble);
    for (std::int64_t r = 0; r < t.size(1); ++r)
      for (std::int64_t c = 0; c < t.size(2); ++c)
        for (std::int64_t i = -radius; i <= radius; ++i)
          for (std::int64_t j = -radius; j <= radius; ++j) {
            if (r + i < 0 || r + i >= t.size(1)) continue;
            if (c + j < 0 || c + j >= t.size(2)) continue;
            result[r][c] += t.select(1, r + i).select(1, c + j).sum() *
                            (weight(i, j) / sum);
          }
    return result;
  };
  const Tensor centred = x - mean_of(x);
  Tensor deviations = mean_of(centred * centred).sqrt();
  deviations = floor > 0 ? deviations.clamp_min(floor)
                         : deviations.masked_fill(deviations.eq(0), 1);
  return centred / deviations;
}

TEST(LocalContrastNorm, MatchesItsDefinition) {
  for (const double floor : {0.0, 0.01, 0.8})
    for (const std::int64_t kernel : {3, 5}) {
      LocalContrastNorm norm(LocalContrastNormOptions{2, kernel, floor});
      norm->to(torch::kDouble);
      const Tensor x = torch::randn({1, 2, 5, 6}, torch::kDouble);
      // The window was computed in f32.
      EXPECT_TRUE(torch::allclose(norm->forward(x)[0],
                                  plain_contrast(x[0], kernel, floor), 1e-5,
                                  1e-5));
      EXPECT_LT(slope_error(
                    [&](const Tensor& t) {
                      return (norm->forward(t) * x.cos()).sum();
                    },
                    x),
                1e-4);
    }
}

TEST(LocalContrastNorm, NothingStaysNothing) {
  for (const double floor : {0.0, 0.01}) {
    LocalContrastNorm norm(LocalContrastNormOptions{2, 3, floor});
    const Tensor x = torch::zeros({1, 2, 4, 4}).requires_grad_();
    const Tensor y = norm->forward(x);
    y.sum().backward();
    EXPECT_EQ(y.abs().max().item<double>(), 0);
    EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
  }
  expect_throws<UsageError>(
      [] {
        LocalContrastNorm(LocalContrastNormOptions{1, 4});
      },
      {"4", "odd"});
}

}  // namespace
}  // namespace sheaf::nn
