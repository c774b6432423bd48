// Training steps under a plan, also on several ranks.
#include <gtest/gtest.h>

#include <mutex>
#include <optional>

#include "sheaf/comm/host/local_group.hpp"
#include "sheaf/parallel/dad/dad_parallel.hpp"
#include "sheaf/parallel/data/data_parallel.hpp"
#include "sheaf/parallel/precision/loss_scale.hpp"
#include "sheaf/parallel/precision/precision.hpp"
#include "tests/parallel/common/training.hpp"
#include "tests/parallel/precision/precision_cuda.hpp"
#include "tests/parallel/precision/precision_networks.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;

TEST(Precision, DataParallelRanksGoByThePlan) {
  const PrecisionPlan plan{
      {{"first", Precision::kBf16}, {"last", Precision::kBf16}}};
  std::mutex mutex;  // torch's default generator is shared by all threads
  std::vector<std::vector<at::Tensor>> gradients(3);
  const auto train = [&](const comm::Group& group, auto& model, Mlp& net) {
    MixedPrecision precision(*net, plan);
    const Examples mine =
        share_of(examples(0, 12, kWide), group.rank(), group.size());
    at::Tensor loss;
    {
      const auto scope = precision.forward_scope();
      loss = part_of_loss(model.forward(mine.data), mine, 12) * group.size();
    }
    loss.backward();
    Tensors result;
    for (const auto& parameter : net->parameters())
      result.push_back(parameter.grad().clone());
    return result;
  };
  const auto make = [&] {
    const std::lock_guard lock(mutex);
    torch::manual_seed(8);
    return Mlp();
  };
  const auto both = [&](auto tag) {
    using Wrapper = typename decltype(tag)::type;
    for (const int ranks : {1, 2})
      comm::run_threads(ranks, [&](const comm::Group& group) {
        Mlp net = make();
        Wrapper model(net, group);
        auto result = train(group, model, net);
        const std::lock_guard lock(mutex);
        gradients[static_cast<std::size_t>(ranks - 1 + group.rank())] = result;
      });
    EXPECT_TRUE(has_same_bits(gradients[1], gradients[2]));
    // Sums of bf16 products over halves of the batch: 8 bits.
    EXPECT_LT(distance(gradients[0], gradients[1]), 0.02);
  };
  both(std::type_identity<DataParallel<MlpImpl>>());
  both(std::type_identity<DadParallel<MlpImpl>>());
}

double train(const PrecisionPlan* plan) {
  torch::manual_seed(9);
  Mlp net;
  std::optional<MixedPrecision> precision;
  if (plan) precision.emplace(*net, *plan);
  torch::optim::SGD optimizer(net->parameters(), 0.3);
  double last = 0;
  for (int step = 0; step < 300; ++step) {
    const Examples all = examples(step % 4, 16, kWide);
    optimizer.zero_grad();
    at::Tensor loss;
    {
      std::optional<MixedPrecision::Scope> scope;
      if (plan) scope.emplace(*precision);
      loss = part_of_loss(net->forward(all.data), all, 16);
    }
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
  }
  return last;
}

TEST(Precision, TrainingInBf16LearnsAsWell) {
  const auto plan = all_in(Precision::kBf16);
  const double exact = train(nullptr);
  EXPECT_LT(exact, 0.05);
  EXPECT_LT(train(&plan), 0.06);
}

TEST_F(Int8OnCuda, WeightsOfIntegersAreTrained) {
  torch::nn::Sequential net(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1)),
      torch::nn::ReLU(), torch::nn::Flatten(), torch::nn::Linear(16 * 64, 2));
  net->to(at::kCUDA);
  MixedPrecision precision(*net, all_in(Precision::kInt8));
  ASSERT_TRUE(precision.needs_loss_scale());
  const at::Tensor x = torch::randn({64, 1, 8, 8}, at::kCUDA);
  const at::Tensor target = (x.mean({1, 2, 3}) > 0).to(at::kLong);
  torch::optim::SGD optimizer(net->parameters(), 0.05);
  LossScale scale;
  double first = 0, last = 0;
  comm::run_threads(1, [&](const comm::Group& group) {
    for (int step = 0; step < 200; ++step) {
      optimizer.zero_grad();
      at::Tensor loss;
      {
        const auto scope = precision.forward_scope();
        loss = torch::cross_entropy_loss(net->forward(x), target);
      }
      scale.scaled(loss).backward();
      if (scale.unscale(net->parameters(), group)) optimizer.step();
      last = loss.item<double>();
      if (step == 0) first = last;
    }
  });
  EXPECT_LT(last, 0.3 * first);
}

}  // namespace
}  // namespace sheaf::parallel
