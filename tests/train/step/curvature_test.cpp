#include "sheaf/train/step/curvature.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "sheaf/comm/group/world.hpp"
#include "sheaf/train/step/learner.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

using torch::Tensor;

// Sums the diagonal of each weight's second derivatives, element by element.
std::vector<double> exact_traces(const Tensor& loss,
                                 const std::vector<Tensor>& weights) {
  const auto gradients = torch::autograd::grad({loss}, weights, {}, true, true);
  std::vector<double> traces;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    double trace = 0;
    for (std::int64_t j = 0; j < weights[i].numel(); ++j) {
      const Tensor row = torch::autograd::grad(
          {gradients[i].flatten()[j]}, {weights[i]}, {}, true, false, true)[0];
      if (row.defined()) trace += row.flatten()[j].item<double>();
    }
    traces.push_back(trace);
  }
  return traces;
}

// Few enough weights to compute all second derivatives, and no two equal
// layers.
struct CurvedNetImpl : torch::nn::Module {
  CurvedNetImpl() {
    conv = register_module("conv", torch::nn::Conv2d(1, 2, 2));
    norm = register_module("norm", torch::nn::BatchNorm2d(2));
    drop = register_module("drop", torch::nn::Dropout(0.3));
    last = register_module("last", torch::nn::Linear(18, 3));
  }
  Tensor forward(const Tensor& x) {
    const Tensor y = torch::max_pool2d(torch::tanh(norm(conv(x))), 1);
    return last(drop(y.flatten(1)));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Dropout drop{nullptr};
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(CurvedNet);

data::Batch images(std::int64_t rows) {
  auto generator = at::detail::createCPUGenerator(3);
  data::Batch batch;
  batch.data = torch::randn({rows, 1, 4, 4}, generator);
  batch.target = torch::randint(3, {rows}, generator, torch::kLong);
  batch.global_size = rows;
  return batch;
}

// Rows with one non-zero number each: the second derivatives are diagonal.
data::Batch lone_numbers(std::int64_t rows, std::int64_t first,
                         std::int64_t count) {
  data::Batch batch;
  batch.data = torch::diag(torch::arange(1, rows + 1, torch::kFloat))
                   .narrow(0, first, count);
  batch.target = torch::zeros({count, 2});
  batch.global_size = rows;
  return batch;
}

template <class Net>
Model model_of(Net net) {
  return {net.ptr(), [net](const Tensor& x) mutable { return net(x); }};
}

std::vector<Curvature> of_lone_numbers(const comm::Group& group,
                                       const std::string& more,
                                       std::int64_t rows_here) {
  const RunConfig config = small_run({"loss=mse", more});
  torch::nn::Linear net(6, 2);
  Learner learner(config, model_of(net), group);
  const auto batch =
      lone_numbers(6, group.rank() == 0 ? 0 : 6 - rows_here, rows_here);
  return learner.curvature(batch, {net->weight}, 2);
}

// The mean over n rows and m outputs of (wx - y)^2 has 2 / nm x_i^2 on the
// diagonal for each output. The estimate is exact if x_i x_j = 0.
TEST(Curvature, OfDiagonalDerivativesIsExact) {
  const double expected = 2.0 / 6 * (1 + 4 + 9 + 16 + 25 + 36);
  with_one_rank([&](const comm::Group& group) {
    for (const char* more : {"accumulate=1", "accumulate=3"}) {
      const auto found = of_lone_numbers(group, more, 6);
      EXPECT_NEAR(found[0].trace, expected, 1e-4) << more;
      EXPECT_NEAR(found[0].error, 0, 1e-4) << more;
    }
  });
}

TEST(Curvature, IsThatOfAllRanksRows) {
  const double expected = 2.0 / 6 * (1 + 4 + 9 + 16 + 25 + 36);
  comm::run_threads(2, [&](const comm::Group& group) {
    for (const char* strategy : {"data", "dad"}) {
      const auto found =
          of_lone_numbers(group, concat("parallel={strategy: ", strategy, "}"),
                          group.rank() == 0 ? 4 : 2);
      EXPECT_NEAR(found[0].trace, expected, 1e-4) << strategy;
    }
  });
}

TEST(Curvature, IsWithinItsErrorOfTheExactOne) {
  torch::manual_seed(1);
  CurvedNet net;
  net->drop->eval();
  const data::Batch batch = images(12);
  const std::vector<Tensor> weights{net->conv->weight, net->last->weight};
  const auto loss = [&] {
    return torch::cross_entropy_loss(net(batch.data), batch.target);
  };
  const auto exact = exact_traces(loss(), weights);
  CurvatureSums sums(weights, 400, 7);
  sums.add(loss());
  const auto found = sums.values();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(found[i].trace, exact[i], 4 * found[i].error);
    EXPECT_GT(found[i].error, 0);
    EXPECT_LT(found[i].error, std::abs(exact[i]) / 5);
  }
}

// The state is what the next step would find, with or without a plan.
TEST(Curvature, ChangesNothingAndIsTheSameAgain) {
  torch::manual_seed(2);
  CurvedNet net;
  with_one_rank([&](const comm::Group& group) {
    const data::Batch batch = images(8);
    const std::vector<Tensor> weights{net->conv->weight, net->last->weight};
    std::vector<std::vector<Curvature>> found;
    for (const char* more : {"seed=5", "plan=bf16", "seed=6"}) {
      const RunConfig config = small_run({more});
      Learner learner(config, model_of(net), group);
      learner.set_training(true);
      const auto before = tensor::state_dict(*net);
      std::vector<Tensor> copies;
      for (const auto& entry : before) copies.push_back(entry.second.clone());
      const Tensor random = at::detail::getDefaultCPUGenerator().get_state();
      found.push_back(learner.curvature(batch, weights, 3));
      ASSERT_EQ(copies.size(), 9u);  // three of them are the norm's buffers
      for (std::size_t i = 0; i < copies.size(); ++i)
        EXPECT_TRUE(torch::equal(before[i].second, copies[i]))
            << before[i].first;
      EXPECT_TRUE(torch::equal(
          random, at::detail::getDefaultCPUGenerator().get_state()));
      for (const Tensor& weight : weights)
        EXPECT_FALSE(weight.grad().defined());
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      EXPECT_EQ(found[0][i].trace, found[1][i].trace);
      EXPECT_NE(found[0][i].trace, found[2][i].trace);
    }
  });
}

TEST(Curvature, OfAWeightThatTheLossDoesNotBendIsNone) {
  const Tensor bent = torch::ones({3}, torch::requires_grad());
  const Tensor straight = torch::ones({2}, torch::requires_grad());
  const Tensor unused = torch::ones({2}, torch::requires_grad());
  CurvatureSums sums({bent, straight, unused}, 2, 1);
  sums.add(bent.square().sum() + straight.sum());
  EXPECT_EQ(sums.values()[0].trace, 6);
  EXPECT_EQ(sums.values()[1].trace, 0);
  EXPECT_EQ(sums.values()[2].trace, 0);
  CurvatureSums none({straight}, 1, 1);
  none.add(straight.sum());
  EXPECT_EQ(none.values()[0].trace, 0);
}

TEST(Curvature, NamesWhatCannotBeDifferentiatedTwice) {
  const Tensor weight = torch::randn({1, 1, 4, 4}, torch::requires_grad());
  const Tensor grid = torch::zeros({1, 2, 2, 2});
  CurvatureSums sums({weight}, 1, 1);
  expect_throws<UsageError>(
      [&] {
        const Tensor placed = weight * weight;
        sums.add(
            torch::grid_sampler_2d(placed, grid * placed.mean(), 0, 0, false)
                .square()
                .sum());
      },
      {"grid_sampler_2d_backward", "--indicator variance"});
  expect_throws<UsageError>([&] { CurvatureSums({weight}, 0, 1); },
                            {"0 samples"});
}

TEST(Curvature, IsNotRecordedIfLayersCommunicate) {
  comm::run_threads(2, [&](const comm::Group& group) {
    CurvedNet net;
    const RunConfig config =
        small_run({"parallel={strategy: data, sync_batchnorm: true}"});
    Learner learner(config, model_of(net), group);
    expect_throws<UsageError>(
        [&] { learner.curvature(images(4), {net->last->weight}, 1); },
        {"sync_batchnorm"});
  });
}

}  // namespace
}  // namespace sheaf::train
