#include "sheaf/parallel/common/gradients.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/comm/group/world.hpp"
#include "sheaf/parallel/precision/loss_scale.hpp"
#include "tests/support/compare.hpp"

namespace sheaf::parallel {
namespace {

using sheaf::test::has_same_bits;

// One layer under two names, and one layer of its own.
struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    first = register_module("first", torch::nn::Linear(2, 2));
    register_module("again", first);
    other = register_module("other", torch::nn::Linear(2, 1));
    to(torch::kDouble);
    for (const at::Tensor& parameter : parameters())
      parameter.detach().fill_(1);
  }
  torch::nn::Linear first{nullptr}, other{nullptr};
};
TORCH_MODULE(Tied);

// The squares of the gradients add up to 4 + 4 + 1 = 9.
void give_gradients(const Tied& net) {
  const auto give = [](at::Tensor parameter, double value) {
    parameter.mutable_grad() = at::full_like(parameter.detach(), value);
  };
  give(net->first->weight, 1);
  give(net->first->bias, std::sqrt(2.0));
  give(net->other->weight, std::sqrt(0.5));
  give(net->other->bias, 0);
}

TEST(Gradients, TiedWeightsAreClippedOnce) {
  const Tied net;
  ASSERT_EQ(net->parameters().size(), 6u);
  give_gradients(net);
  EXPECT_DOUBLE_EQ(clip_gradients(*net, 1), 3);
  EXPECT_NEAR(clip_gradients(*net, 10), 1, 1e-15);
  EXPECT_DOUBLE_EQ(net->first->weight.grad()[0][0].item<double>(), 1.0 / 3);
}

TEST(Gradients, TiedWeightsAreUnscaledOnce) {
  comm::run_threads(2, [](const comm::Group& group) {
    const Tied net;
    give_gradients(net);
    LossScale scale({.start = 1024});
    EXPECT_TRUE(scale.unscale(net->parameters(), group));
    EXPECT_EQ(net->first->weight.grad()[0][0].item<double>(), 1.0 / 1024);
  });
}

// In floating point, the average of three equal numbers need not be equal to
// them.
TEST(Gradients, TiedWeightsAreAveragedOnce) {
  comm::run_threads(3, [](const comm::Group& group) {
    const Tied net;
    give_gradients(net);
    const at::Tensor gradient = net->first->weight.grad();
    gradient.fill_(0.1 * (group.rank() + 1));
    const at::Tensor once = gradient.clone();
    torch::nn::Linear alone(torch::nn::LinearOptions(2, 2).bias(false));
    alone->to(torch::kDouble);
    alone->weight.mutable_grad() = once;
    average_gradients(*alone, group);
    average_gradients(*net, group);
    EXPECT_TRUE(has_same_bits(gradient, alone->weight.grad()));
  });
}

// Parts of one storage are separate gradients. Memory that is assigned to two
// parameters is changed once, and counts twice in the norm.
TEST(Gradients, ViewsOfOneStorage) {
  struct Two : torch::nn::Module {
    Two() {
      a = register_parameter("a", torch::ones({2}, torch::kDouble));
      b = register_parameter("b", torch::ones({2}, torch::kDouble));
    }
    at::Tensor a, b;
  };
  Two parts;
  const at::Tensor flat = torch::tensor({1.0, 1.0, 1.0, 1.0}, torch::kDouble);
  parts.a.mutable_grad() = flat.narrow(0, 0, 2);
  parts.b.mutable_grad() = flat.narrow(0, 2, 2);
  EXPECT_EQ(distinct_gradients(parts.parameters()).size(), 2u);
  EXPECT_DOUBLE_EQ(clip_gradients(parts, 1), 2);
  EXPECT_EQ(flat.sum().item<double>(), 2);

  Two same;
  const at::Tensor shared = torch::tensor({1.0, 1.0}, torch::kDouble);
  same.a.mutable_grad() = shared;
  same.b.mutable_grad() = shared.view({2});
  EXPECT_EQ(distinct_gradients(same.parameters()).size(), 1u);
  EXPECT_DOUBLE_EQ(clip_gradients(same, 1), 2);
  EXPECT_EQ(shared[0].item<double>(), 0.5);
}

}  // namespace
}  // namespace sheaf::parallel
