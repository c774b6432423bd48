#include "sheaf/train/setup/optimizer.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"

namespace sheaf::train {
namespace {

struct Net {
  explicit Net(const std::string& text)
      : config(parse_config("optimizer: " + text, "a.yaml").optimizer),
        parameters({{"w", torch::linspace(-1, 1, 6).reshape({2, 3})},
                    {"b", torch::ones({2}, torch::kDouble)},
                    {"unused", torch::ones({1})}}) {
    std::vector<torch::Tensor> list;
    for (auto& [name, tensor] : parameters)
      list.push_back(tensor.set_requires_grad(true));
    optimizer = make_optimizer(config, list);
  }

  void step(double scale) {
    for (std::size_t i = 0; i < 2; ++i) {
      torch::Tensor& one = parameters[i].second;
      one.mutable_grad() = torch::cos(one.detach() * scale);
    }
    optimizer->step();
  }

  OptimizerConfig config;
  NamedTensors parameters;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

class OptimizerState : public testing::TestWithParam<const char*> {};

TEST_P(OptimizerState, GoesOnBitForBit) {
  Net whole(GetParam());
  for (int step = 0; step < 5; ++step) whole.step(step);

  Net first(GetParam());
  for (int step = 0; step < 2; ++step) first.step(step);
  Net second(GetParam());
  {
    const torch::NoGradGuard guard;
    for (std::size_t i = 0; i < 3; ++i)
      second.parameters[i].second.copy_(first.parameters[i].second);
  }
  load_optimizer_state(*second.optimizer, second.parameters,
                       optimizer_state(*first.optimizer, first.parameters));
  first.step(9);  // must not affect the loaded state
  for (int step = 2; step < 5; ++step) second.step(step);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(
        torch::equal(whole.parameters[i].second, second.parameters[i].second))
        << whole.parameters[i].first;
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, OptimizerState,
    testing::Values("sgd", "{name: sgd, momentum: 0.9}",
                    "{name: sgd, momentum: 0.9, nesterov: true,"
                    " weight_decay: 0.01}",
                    "adam", "{name: adamw, weight_decay: 0.1}"));

TEST(Optimizer, StateHasNames) {
  Net net("adam");
  net.step(1);
  const NamedTensors state = optimizer_state(*net.optimizer, net.parameters);
  ASSERT_EQ(state.size(), 6u);
  EXPECT_EQ(state[0].first, "step/w");
  EXPECT_EQ(state[0].second.item<std::int64_t>(), 1);
  EXPECT_EQ(state[4].first, "exp_avg/b");
}

TEST(Optimizer, StateOfAnotherOptimizerIsAnError) {
  Net adam("adam");
  adam.step(1);
  const NamedTensors state = optimizer_state(*adam.optimizer, adam.parameters);
  Net sgd("{name: sgd, momentum: 0.5}");
  EXPECT_THROW(load_optimizer_state(*sgd.optimizer, sgd.parameters, state),
               UsageError);
  Net other("adam");
  EXPECT_THROW(load_optimizer_state(*other.optimizer, other.parameters,
                                    {{"exp_avg/w", torch::ones({7})}}),
               UsageError);
}

TEST(Optimizer, RateIsSet) {
  Net net("sgd");
  set_learning_rate(*net.optimizer, 0);
  const torch::Tensor before = net.parameters[0].second.detach().clone();
  net.step(1);
  EXPECT_TRUE(torch::equal(before, net.parameters[0].second));
}

}  // namespace
}  // namespace sheaf::train
