#include "sheaf/nn/sgd.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace sheaf::nn {
namespace {

using torch::optim::SGDOptions;

// The weights after a few steps on a small problem.
template <class Optimizer>
std::vector<at::Tensor> train(at::Device device, const SGDOptions& options) {
  torch::manual_seed(4);
  torch::nn::Sequential net(torch::nn::Linear(6, 5), torch::nn::ReLU(),
                            torch::nn::Linear(5, 3));
  const auto data = torch::randn({8, 6}).to(device);
  net->to(device, torch::kDouble);
  Optimizer optimizer(net->parameters(), options);
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    net->forward(data.to(torch::kDouble)).square().mean().backward();
    optimizer.step();
  }
  return net->parameters();
}

// The weights after two steps; the second one's closure creates the first
// gradient of the second weight.
template <class Optimizer>
std::vector<at::Tensor> train_later(at::Device device,
                                    const SGDOptions& options) {
  const auto weight = [&](double value) {
    return torch::full({3}, value, torch::dtype(torch::kDouble).device(device))
        .set_requires_grad(true);
  };
  const std::vector<at::Tensor> weights{weight(1), weight(2)};
  Optimizer optimizer(weights, options);
  for (int step = 0; step < 3; ++step)
    optimizer.step([&] {
      auto loss = weights[0].square().sum();
      if (step > 0) loss = loss + weights[1].square().sum();
      loss.backward();
      return loss;
    });
  return weights;
}

class SgdOn : public testing::TestWithParam<at::DeviceType> {};

TEST_P(SgdOn, StepsAsLibtorchsDoes) {
  if (GetParam() == at::kCUDA && !torch::cuda::is_available())
    GTEST_SKIP() << "no GPU here";
  const at::Device device(GetParam());
  for (const auto& options :
       {SGDOptions(0.1), SGDOptions(0.1).momentum(0.9),
        SGDOptions(0.1).momentum(0.9).dampening(0.2).weight_decay(0.01),
        SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01)}) {
    const auto ours = train<Sgd>(device, options);
    const auto theirs = train<torch::optim::SGD>(device, options);
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(torch::allclose(ours[i], theirs[i], 1e-14, 1e-14));
  }
}

TEST_P(SgdOn, AClosureMayCreateTheFirstGradientOfAParameter) {
  if (GetParam() == at::kCUDA && !torch::cuda::is_available())
    GTEST_SKIP() << "no GPU here";
  const auto options = SGDOptions(0.1).momentum(0.9);
  const auto ours = train_later<Sgd>(at::Device(GetParam()), options);
  const auto theirs =
      train_later<torch::optim::SGD>(at::Device(GetParam()), options);
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(torch::allclose(ours[i], theirs[i], 1e-14, 1e-14));
}

INSTANTIATE_TEST_SUITE_P(Devices, SgdOn, testing::Values(at::kCPU, at::kCUDA),
                         [](const auto& info) {
                           return info.param == at::kCPU ? "cpu" : "cuda";
                         });

TEST(Sgd, ReturnsTheLossOfTheClosure) {
  const auto weight = torch::ones({2}, torch::requires_grad());
  Sgd optimizer({weight}, SGDOptions(1.0));
  const auto loss = optimizer.step([&] {
    optimizer.zero_grad();
    auto sum = (weight * 3).sum();
    sum.backward();
    return sum;
  });
  EXPECT_EQ(loss.item<double>(), 6);
  EXPECT_EQ(weight.detach()[0].item<double>(), -2);
}

}  // namespace
}  // namespace sheaf::nn
