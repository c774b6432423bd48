#include "sheaf/train/step/optimized_parameters.hpp"

#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"
#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

using torch::Tensor;

TEST(OptimizedParameters, RestingOnesAreLeftAsTheyAre) {
  const RunConfig config = small_run({"optimizer.weight_decay=0.1"});
  torch::nn::Linear net(2, 1);
  OptimizedParameters parameters(config, *net);
  parameters.train_only({net->bias});
  const Tensor weight = net->weight.detach().clone();
  const Tensor bias = net->bias.detach().clone();
  const Tensor loss = parameters.with_resting(net->bias.sum(), torch::kFloat);
  EXPECT_EQ(loss.item<float>(), bias.item<float>());
  loss.backward();
  EXPECT_TRUE(net->weight.grad().defined());  // for the exchange
  parameters.forget_resting_gradients();
  parameters.step(0.5);
  EXPECT_TRUE(torch::equal(net->weight.detach(), weight));
  EXPECT_FALSE(torch::equal(net->bias.detach(), bias));
}

TEST(OptimizedParameters, TheZeroLossReachesAllOfThem) {
  torch::nn::Linear net(2, 1);
  const OptimizedParameters parameters(small_run(), *net);
  parameters.zero_loss(torch::kFloat).backward();
  EXPECT_EQ(parameters.gradients().size(), 2u);
  for (const Tensor& one : parameters.gradients())
    EXPECT_EQ(one.abs().sum().item<float>(), 0);
}

TEST(OptimizedParameters, NamesTheFirstGradientThatIsNotFinite) {
  torch::nn::Linear net(2, 1);
  const OptimizedParameters parameters(small_run(), *net);
  net->weight.mutable_grad() = torch::zeros({1, 2});
  net->bias.mutable_grad() = torch::full({1}, NAN);
  EXPECT_EQ(parameters.find_non_finite_gradient(), "bias");
  net->bias.mutable_grad().zero_();
  EXPECT_EQ(parameters.find_non_finite_gradient(), "");
}

TEST(OptimizedParameters, AreNeeded) {
  torch::nn::ReLU net;
  expect_throws<UsageError>([&] { OptimizedParameters(small_run(), *net); },
                            {"no parameters to train"});
}

}  // namespace
}  // namespace sheaf::train
