// Which layers a plan may contain.
#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/precision/precision.hpp"
#include "tests/parallel/common/training.hpp"
#include "tests/parallel/precision/precision_networks.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;

struct SharedImpl : torch::nn::Module {
  SharedImpl() {
    words = register_module("words", torch::nn::Embedding(10, 6));
    inner = register_module("inner", torch::nn::Linear(6, 6));
    scores = register_parameter("scores", torch::randn({4, 6}));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = inner(torch::relu(inner(words(x))));
    return torch::cat({torch::matmul(y, words->weight.t()),
                       torch::matmul(y, scores.narrow(0, 1, 2).t())},
                      1);
  }
  torch::nn::Embedding words{nullptr};
  torch::nn::Linear inner{nullptr};
  at::Tensor scores;
};
TORCH_MODULE(Shared);

TEST(Precision, WeightsAreKnownByWhereTheyAreUsed) {
  torch::manual_seed(6);
  Shared net;
  const at::Tensor x = torch::tensor({1, 4, 9, 0});
  const PrecisionPlan plan{{{"inner", Precision::kBf16},
                            {"words", Precision::kBf16},
                            {"scores", Precision::kBf16}}};
  const auto planned = results_under(net, plan, x);
  const auto by_hand = results_of(net, [&] {
    const at::Tensor once = low_linear(net->inner, net->words(x));
    const at::Tensor y = low_linear(net->inner, torch::relu(once));
    return torch::cat({torch::matmul(y, low(net->words->weight.t())),
                       torch::matmul(y, low(net->scores.narrow(0, 1, 2).t()))},
                      1);
  });
  EXPECT_TRUE(has_same_bits(planned, by_hand));
}

TEST(Precision, NamesOfLayers) {
  EXPECT_EQ(layers_of(*PlannedNet()),
            (std::vector<std::string>{"conv1", "conv2", "last"}));
  EXPECT_EQ(layers_of(*Shared()),
            (std::vector<std::string>{"scores", "inner"}));
  EXPECT_EQ(layers_of(*torch::nn::Linear(2, 2)),
            (std::vector<std::string>{"weight"}));
}

// The same weight in two modules.
struct ScoresImpl : torch::nn::Module {
  explicit ScoresImpl(const at::Tensor& given) {
    weight = register_parameter("weight", given);
  }
  at::Tensor weight;
};

struct SharedNamesImpl : torch::nn::Module {
  SharedNamesImpl() {
    words = register_module("words", torch::nn::Embedding(10, 6));
    scores =
        register_module("scores", std::make_shared<ScoresImpl>(words->weight));
    again =
        register_module("again", std::make_shared<ScoresImpl>(words->weight));
  }
  torch::nn::Embedding words{nullptr};
  std::shared_ptr<ScoresImpl> scores, again;
};

TEST(Precision, SharedWeightsHaveOneName) {
  SharedNamesImpl net;
  EXPECT_EQ(layers_of(net), (std::vector<std::string>{"scores"}));
  for (const char* name : {"words", "again"})
    expect_throws<UsageError>(
        [&] {
          MixedPrecision(net, PrecisionPlan{{{name, Precision::kBf16}}});
        },
        {"shares its weight with 'scores'"});
  MixedPrecision precision(net, {{{"scores", Precision::kBf16}}});
  const auto scope = precision.forward_scope();
  EXPECT_EQ(
      torch::matmul(torch::ones({2, 6}), net.again->weight.t()).scalar_type(),
      kLow);
}

TEST(Precision, UnknownLayersAreErrors) {
  PlannedNet net;
  expect_throws<UsageError>(
      [&] {
        MixedPrecision(*net, PrecisionPlan{{{"conv3", Precision::kBf16}}});
      },
      {"'conv3'", "closest names: conv1, conv2, last, of 3 layers"});
  for (const char* name : {"matmul#", "matmul#x", "softmax#0", "norm", ""})
    expect_throws<UsageError>(
        [&] {
          MixedPrecision(*net, PrecisionPlan{{{name, Precision::kBf16}}});
        },
        {name});
  MixedPrecision(*net, PrecisionPlan{{{"bmm#12", Precision::kBf16}}});
}

TEST(Precision, WhatADeviceHasNotIsAnError) {
  PlannedNet net;
  for (const auto precision :
       {Precision::kTf32, Precision::kF16, Precision::kInt8}) {
    expect_throws<UsageError>(
        [&] {
          MixedPrecision(*net, PrecisionPlan{{{"conv1", precision}}});
        },
        {"the layer 'conv1': a CPU computes layers in f32 and bf16"});
    EXPECT_THROW(MixedPrecision(*net, all_in(precision)), UsageError);
  }
  net->to(at::kDouble);
  expect_throws<UsageError>(
      [&] { MixedPrecision(*net, all_in(Precision::kBf16)); },
      {"parameters in f32"});
}

// Products of activations are known only after a pass.
TEST(Precision, ProductsThatNeverOccurAreErrors) {
  Attention net;
  const at::Tensor x = torch::randn({2, 7, 12});
  MixedPrecision precision(
      *net, {{{"matmul#1", Precision::kBf16}, {"matmul#2", Precision::kBf16}}});
  const auto pass = [&] {
    const auto scope = precision.forward_scope();
    net->forward(x);
  };
  {
    const torch::NoGradGuard no_grad;  // evaluation may have other products
    pass();
    pass();
  }
  pass();
  expect_throws<UsageError>([&] { precision.check_products(); },
                            {"'matmul#2'", "matmul#0 to matmul#1"});
  expect_throws<UsageError>(pass, {"'matmul#2'", "matmul#0 to matmul#1"});
}

TEST(Precision, ProductsOfAnyPassUntilThenMayBeNamed) {
  Attention net;
  const at::Tensor x = torch::randn({2, 7, 12});
  MixedPrecision precision(
      *net, {{{"bmm#0", Precision::kBf16}, {"matmul#1", Precision::kBf16}}});
  {
    const torch::NoGradGuard no_grad;
    const auto scope = precision.forward_scope();
    torch::bmm(x, x.transpose(1, 2));
  }
  try {
    const auto scope = precision.forward_scope();
    net->forward(torch::randn({2, 7, 5}));
    ADD_FAILURE() << "5 columns went through 12 rows";
  } catch (const c10::Error&) {  // a failed pass is ignored
  }
  for (int step = 0; step < 3; ++step) {
    const auto scope = precision.forward_scope();
    net->forward(x);
  }
  precision.check_products();
}

// A plan that applies to nothing is reported, too.
TEST(Precision, AModuleWithoutProductsOfActivationsSaysSo) {
  Mlp net;
  MixedPrecision precision(*net, {{{"bmm#0", Precision::kBf16}}});
  {
    const auto scope = precision.forward_scope();
    net->forward(torch::randn({3, 12}));
  }
  expect_throws<UsageError>([&] { (void)precision.forward_scope(); },
                            {"'bmm#0'", "none"});
}

}  // namespace
}  // namespace sheaf::parallel
