#include "sheaf/parallel/precision/loss_scale.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/world.hpp"

namespace sheaf::parallel {
namespace {

using comm::Group;
using comm::run_threads;

std::vector<at::Tensor> one_parameter() {
  return {torch::ones({3}, torch::requires_grad())};
}

void give_gradient(std::vector<at::Tensor>& parameters, double value) {
  parameters[0].mutable_grad() = torch::full({3}, value);
}

TEST(LossScale, GivesGradientsBack) {
  run_threads(1, [](const Group& group) {
    LossScale scale;
    EXPECT_EQ(scale.value(), 65536);
    auto parameters = one_parameter();
    scale.scaled((parameters[0] * 3).sum()).backward();
    EXPECT_EQ(parameters[0].grad()[0].item<float>(), 3 * 65536);
    EXPECT_TRUE(scale.unscale(parameters, group));
    EXPECT_TRUE(parameters[0].grad().equal(torch::full({3}, 3.0)));
  });
}

TEST(LossScale, TakesSparseGradients) {
  run_threads(1, [](const Group& group) {
    LossScale scale;
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(4, 2).sparse(true));
    scale.scaled(table(torch::tensor({1, 1, 3})).sum()).backward();
    EXPECT_TRUE(scale.unscale(table->parameters(), group));
    EXPECT_EQ(table->weight.grad().to_dense()[1][0].item<float>(), 2);
    table->weight.grad()._values().fill_(INFINITY);
    EXPECT_FALSE(scale.unscale(table->parameters(), group));
  });
}

TEST(LossScale, ShrinksAndGrows) {
  run_threads(1, [](const Group& group) {
    LossScale scale({.start = 8, .least = 2, .most = 16, .growth_steps = 3});
    auto parameters = one_parameter();
    const auto step = [&](double gradient) {
      give_gradient(parameters, gradient);
      return scale.unscale(parameters, group);
    };
    const double infinity = std::numeric_limits<double>::infinity();
    EXPECT_FALSE(step(infinity));
    EXPECT_EQ(scale.value(), 4);
    EXPECT_FALSE(step(std::numeric_limits<double>::quiet_NaN()));
    EXPECT_FALSE(step(-infinity));
    EXPECT_EQ(scale.value(), 2);  // the minimum
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(step(1));
    EXPECT_EQ(scale.value(), 4);
    EXPECT_TRUE(step(1));
    EXPECT_TRUE(step(1));
    EXPECT_FALSE(step(infinity));  // restarts the count of good steps
    for (int i = 0; i < 12; ++i) EXPECT_TRUE(step(1));
    EXPECT_EQ(scale.value(), 16);  // the maximum
  });
}

TEST(LossScale, RanksAgree) {
  run_threads(3, [](const Group& group) {
    LossScale scale;
    auto parameters = one_parameter();
    const bool is_bad = group.rank() == 1;
    give_gradient(parameters,
                  is_bad ? std::numeric_limits<double>::infinity() : 1);
    EXPECT_FALSE(scale.unscale(parameters, group));
    EXPECT_EQ(scale.value(), 32768);
    // A rank without gradients takes part.
    give_gradient(parameters, 1);
    if (is_bad) parameters[0].mutable_grad().reset();
    EXPECT_TRUE(scale.unscale(parameters, group));
  });
}

TEST(LossScale, StateComesBack) {
  run_threads(1, [](const Group& group) {
    LossScale scale, other;
    auto parameters = one_parameter();
    give_gradient(parameters, std::numeric_limits<double>::infinity());
    scale.unscale(parameters, group);
    give_gradient(parameters, 1);
    scale.unscale(parameters, group);
    other.load(scale.state());
    EXPECT_EQ(other.value(), 32768);
    EXPECT_EQ(other.good_steps(), 1);
    EXPECT_THROW(other.load(torch::ones({3})), UsageError);
  });
}

}  // namespace
}  // namespace sheaf::parallel
