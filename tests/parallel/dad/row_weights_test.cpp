#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/common/gradients.hpp"
#include "tests/parallel/dad/dad_training.hpp"

// Average::kRows multiplies a rank's gradients by its share of the rows exactly
// once, no matter how they reach the parameters.
namespace sheaf::parallel {
namespace {

using namespace test;
using comm::Group;
using comm::run_threads;

constexpr int kRanks = 3;
constexpr std::int64_t kFeatures = 4;

std::int64_t rows_of(int rank) { return 2 + 3 * rank; }

at::Tensor rows(int rank, int seed) {
  auto generator =
      at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed + rank));
  return at::randn({rows_of(rank), kFeatures}, generator,
                   at::TensorOptions(at::kDouble));
}

struct TwoLayers {
  std::shared_ptr<torch::nn::LinearImpl> first, second;
  std::vector<at::Tensor> parameters() const {
    return {first->weight, first->bias, second->weight, second->bias};
  }
};

TwoLayers make_two_layers() {
  const std::function make = [] {
    return std::make_shared<torch::nn::LinearImpl>(kFeatures, kFeatures);
  };
  return {make_net(make, at::kDouble, 1), make_net(make, at::kDouble, 2)};
}

// `loss` computes the loss of one rank from the two forward() calls that it is
// given.
using Call = std::function<at::Tensor(const at::Tensor&)>;
using Loss = std::function<at::Tensor(const Call&, const Call&, int rank)>;

std::vector<at::Tensor> expected_gradients(const Loss& loss) {
  const TwoLayers nets = make_two_layers();
  double total = 0;
  at::Tensor sum;
  for (int rank = 0; rank < kRanks; ++rank) {
    const at::Tensor one =
        loss([&](const at::Tensor& x) { return nets.first->forward(x); },
             [&](const at::Tensor& x) { return nets.second->forward(x); },
             rank) *
        static_cast<double>(rows_of(rank));
    sum = sum.defined() ? sum + one : one;
    total += static_cast<double>(rows_of(rank));
  }
  (sum / total).backward();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& one : nets.parameters())
    gradients.push_back(one.grad());
  return gradients;
}

void expect_weighted_once(const Loss& loss) {
  const auto expected = expected_gradients(loss);
  for (const DadMode mode : {DadMode::kDad, DadMode::kEdad})
    for (const Route route : {Route::kDad, Route::kGradient})
      run_threads(kRanks, [&](const Group& group) {
        const TwoLayers nets = make_two_layers();
        DadOptions options{.mode = mode};
        if (route == Route::kGradient) options.routes["weight"] = route;
        DadParallel first(nets.first, group, options);
        DadParallel second(nets.second, group, options);
        for (int step = 0; step < 2; ++step) {
          forget_gradients(*nets.first);
          forget_gradients(*nets.second);
          loss([&](const at::Tensor& x) { return first.forward(x); },
               [&](const at::Tensor& x) { return second.forward(x); },
               group.rank())
              .backward();
          const auto parameters = nets.parameters();
          for (std::size_t i = 0; i < expected.size(); ++i) {
            ASSERT_EQ(parameters[i].grad().defined(), expected[i].defined());
            if (expected[i].defined())
              EXPECT_TRUE(torch::allclose(parameters[i].grad(), expected[i],
                                          1e-12, 1e-13))
                  << "mode " << static_cast<int>(mode) << ", step " << step
                  << ", parameter " << i;
          }
        }
      });
}

TEST(RowWeights, TwoModelsOneAfterTheOther) {
  expect_weighted_once([](const Call& first, const Call& second, int rank) {
    return second(torch::tanh(first(rows(rank, 10)))).square().mean();
  });
}

TEST(RowWeights, AModelAfterItself) {
  expect_weighted_once([](const Call& first, const Call& second, int rank) {
    at::Tensor state = torch::zeros({rows_of(rank), kFeatures}, at::kDouble);
    for (int time = 0; time < 3; ++time)
      state = torch::tanh(first(state + rows(rank, 20 + 10 * time)));
    return state.square().mean() + second(state.detach()).square().mean();
  });
}

TEST(RowWeights, GradientPenalties) {
  expect_weighted_once([](const Call& first, const Call& second, int rank) {
    const at::Tensor x = rows(rank, 30).set_requires_grad(true);
    const at::Tensor y = torch::tanh(second(torch::tanh(first(x))));
    at::Tensor sum = y.sum();
    const at::Tensor slope =
        torch::autograd::grad({sum}, {x}, {}, true, true)[0];
    return y.mean() + (slope.norm(2, 1) - 1).square().mean();
  });
}

// Gradients that the program sees are those of its rank, as without a wrapper.
TEST(RowWeights, GradientsOfInputsAreNotWeighted) {
  run_threads(kRanks, [](const Group& group) {
    const TwoLayers nets = make_two_layers();
    DadParallel model(nets.first, group);
    const at::Tensor x = rows(group.rank(), 40).set_requires_grad(true);
    const auto slope = [&](at::Tensor y) {
      y = y.square().sum();
      return torch::autograd::grad({y}, {x}, {}, true)[0];
    };
    const at::Tensor expected = slope(nets.first->forward(x));
    EXPECT_TRUE(
        torch::allclose(slope(model.forward(x)), expected, 1e-12, 1e-13));
  });
}

struct CounterImpl : torch::nn::Module {
  CounterImpl() {
    layer = register_module("layer", torch::nn::Linear(kFeatures, kFeatures));
    layer->to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x, at::Tensor& state, bool in_place) {
    if (in_place) state.mul_(2);
    at::Tensor y = layer(x + state);
    state = y.detach();
    return y;
  }
  torch::nn::Linear layer{nullptr};
};

TEST(RowWeights, ArgumentsThatTheModuleAssignsReachTheProgram) {
  run_threads(2, [](const Group& group) {
    auto net = std::make_shared<CounterImpl>();
    DadParallel model(net, group);
    const at::Tensor x = rows(group.rank(), 50).set_requires_grad(true);
    at::Tensor state = torch::zeros_like(x);
    const at::Tensor y = model.forward(x, state, false);
    EXPECT_TRUE(torch::equal(state, y.detach()));
  });
}

TEST(RowWeights, AChangeInPlaceOfAnInputIsAnError) {
  run_threads(2, [](const Group& group) {
    auto net = std::make_shared<CounterImpl>();
    DadParallel model(net, group);
    const at::Tensor x = rows(group.rank(), 60).set_requires_grad(true);
    at::Tensor state = x * 1;
    try {
      model.forward(x, state, true);
      ADD_FAILURE() << "no error";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("in place"), std::string::npos);
    }
  });
}

}  // namespace
}  // namespace sheaf::parallel
