#include "sheaf/parallel/precision/precision.hpp"

#include <gtest/gtest.h>

#include "tests/parallel/common/training.hpp"
#include "tests/parallel/precision/precision_cuda.hpp"
#include "tests/parallel/precision/precision_networks.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;

TEST(Precision, ConvolutionsGoByThePlan) {
  torch::manual_seed(1);
  PlannedNet net;
  const at::Tensor x = torch::randn({4, 3, 8, 8});
  const PrecisionPlan plan{
      {{"conv1", Precision::kBf16}, {"last", Precision::kBf16}}};
  PlannedNet twin;
  for (std::size_t i = 0; i < net->parameters().size(); ++i)
    twin->parameters()[i].data().copy_(net->parameters()[i]);
  const auto planned = results_under(net, plan, x);
  const auto by_hand = results_of(twin, [&] {
    at::Tensor y = torch::conv2d(low(x), low(twin->conv1->weight),
                                 low(twin->conv1->bias), 1, 1);
    y = torch::relu(twin->norm(y));
    EXPECT_EQ(y.scalar_type(), kLow);
    y = torch::relu(torch::conv2d(y.to(kWide), twin->conv2->weight, {}, 2));
    return low_linear(twin->last, y.flatten(1));
  });
  EXPECT_TRUE(has_same_bits(planned, by_hand));
  EXPECT_EQ(planned[0].scalar_type(), kLow);
  for (std::size_t i = 1; i < planned.size(); ++i)
    EXPECT_EQ(planned[i].scalar_type(), kWide);
  EXPECT_TRUE(net->norm->running_mean.equal(twin->norm->running_mean));
}

// Old versions of oneDNN crash on new processors if layers are large enough for
// AMX.
TEST(Precision, LargeLayersInBf16) {
  torch::manual_seed(10);
  torch::nn::Sequential net(torch::nn::Conv2d(64, 64, 3), torch::nn::ReLU(),
                            torch::nn::Conv2d(64, 32, 3), torch::nn::Flatten(),
                            torch::nn::Linear(32 * 4 * 4, 128));
  const at::Tensor x = torch::randn({8, 64, 8, 8});
  const auto planned = results_under(net, all_in(Precision::kBf16), x);
  const auto exact = results_of(net, [&] { return net->forward(x); });
  // Without bf16 instructions, libtorch accumulates in bf16: rounding by 2^-9
  // in each of n = 576 steps, of growing sums, gives 2^-9 sqrt(n / 3) = 2.7 %
  // in one layer and 4.7 % in three; twice that for an unfavorable seed.
  EXPECT_LT((planned[0].to(kWide) - exact[0]).norm().item<double>(),
            0.1 * exact[0].norm().item<double>());
}

TEST(Precision, ProductsOfActivationsAreCounted) {
  torch::manual_seed(2);
  Attention net;
  const at::Tensor x = torch::randn({2, 7, 12});
  const PrecisionPlan plan{{{"query", Precision::kBf16},
                            {"value", Precision::kBf16},
                            {"matmul#1", Precision::kBf16}}};
  const auto planned = results_under(net, plan, x);
  const auto by_hand = results_of(net, [&] {
    const auto scores = torch::matmul(low_product(net->query, x).to(kWide),
                                      net->key(x).transpose(1, 2));
    const auto weights = torch::softmax(scores, -1);
    const auto y = torch::matmul(low(weights), low_product(net->value, x)) + x;
    return net->norm(y);
  });
  EXPECT_TRUE(has_same_bits(planned, by_hand));
  // Each pass counts from 0.
  EXPECT_TRUE(has_same_bits(planned, results_under(net, plan, x)));
}

TEST(Precision, WhatIsSummedIsSummedInF32) {
  torch::manual_seed(3);
  Attention net;
  const at::Tensor x = torch::randn({2, 7, 12});
  const auto planned = results_under(net, all_in(Precision::kBf16), x);
  EXPECT_EQ(planned[0].scalar_type(), kWide);  // of LayerNorm
  const auto by_hand = results_of(net, [&] {
    const auto scores = torch::matmul(low_product(net->query, x),
                                      low_product(net->key, x).transpose(1, 2));
    const auto weights = torch::softmax(scores.to(kWide), -1);
    return net->norm(torch::matmul(low(weights), low_product(net->value, x)) +
                     x);
  });
  EXPECT_TRUE(has_same_bits(planned, by_hand));
}

TEST(Precision, AllF32IsAsWithoutAPlan) {
  torch::manual_seed(4);
  PlannedNet net;
  Attention attention;
  const at::Tensor images = torch::randn({4, 3, 8, 8});
  const at::Tensor words = torch::randn({2, 7, 12});
  const auto f32 = all_in(Precision::kF32);
  EXPECT_TRUE(
      has_same_bits(results_under(net, f32, images),
                    results_of(net, [&] { return net->forward(images); })));
  EXPECT_TRUE(has_same_bits(
      results_under(attention, f32, words),
      results_of(attention, [&] { return attention->forward(words); })));
}

// Cases in which libtorch does not support bf16, or is wrong.
TEST(Precision, WhatLibtorchCannotDoIsDoneInF32) {
  torch::manual_seed(7);
  torch::nn::Sequential net(
      torch::nn::ConvTranspose2d(
          torch::nn::ConvTranspose2dOptions(3, 4, 3).stride(2)),
      torch::nn::Conv2d(4, 4, 3), torch::nn::Mish(), torch::nn::ReLU6(),
      torch::nn::Conv2d(4, 2, 3));
  const at::Tensor x = torch::randn({2, 3, 6, 6});
  const auto planned = results_under(net, all_in(Precision::kBf16), x);
  const auto exact = results_of(net, [&] { return net->forward(x); });
  EXPECT_EQ(planned[0].scalar_type(), kLow);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const at::Tensor difference = planned[i].to(kWide) - exact[i];
    // The error of three bf16 layers, with 8 bits each, is far below that of
    // another function.
    EXPECT_LT(difference.norm().item<double>(),
              0.05 * exact[i].norm().item<double>())
        << i;
  }
}

TEST_F(PrecisionOnCuda, EveryPrecisionIsNearF32) {
  PlannedNet net;
  Attention attention;
  net->to(at::kCUDA);
  attention->to(at::kCUDA);
  const at::Tensor images = torch::randn({16, 3, 8, 8}, at::kCUDA);
  const at::Tensor words = torch::randn({4, 20, 12}, at::kCUDA);
  const auto f32 = all_in(Precision::kF32);
  const auto exact = results_under(net, f32, images);
  const auto exact_words = results_under(attention, f32, words);
  struct Case {
    Precision precision;
    at::ScalarType type;
    double error;
  };
  for (const Case& one : {Case{Precision::kTf32, at::kFloat, 0.01},
                          Case{Precision::kBf16, at::kBFloat16, 0.06},
                          Case{Precision::kF16, at::kHalf, 0.01},
                          Case{Precision::kInt8, at::kHalf, 0.15}}) {
    if (one.precision == Precision::kInt8 && !cast_kernels::are_built())
      continue;
    const auto plan = all_in(one.precision);
    const auto planned = results_under(net, plan, images);
    EXPECT_EQ(planned[0].scalar_type(), one.type);
    EXPECT_LT(relative_error(planned[0], exact[0]), one.error)
        << plan::to_string(one.precision);
    for (std::size_t i = 1; i < planned.size(); ++i)
      EXPECT_EQ(planned[i].scalar_type(), at::kFloat);
    const auto planned_words = results_under(attention, plan, words);
    EXPECT_LT(relative_error(planned_words[0], exact_words[0]), one.error)
        << plan::to_string(one.precision);
  }
}

}  // namespace
}  // namespace sheaf::parallel
