#include <gtest/gtest.h>

#include "sheaf/parallel/dad_parallel.hpp"
#include "tests/parallel/dad_training.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;
using comm::Group;
using comm::run_threads;

const DadOptions kTwoWay{.mode = DadMode::kRankDad,
                         .rank = 2,
                         .where = Where::kStar,
                         .is_two_way = true,
                         .skips_zeros = false};

template <class Model>
void train(Model& model, torch::optim::SGD& optimizer, int first, int last) {
  const Group& group = model.group();
  for (int step = first; step < last; ++step) {
    optimizer.zero_grad();
    const Examples mine = share_of(examples(step, kBatch, at::kFloat),
                                   group.rank(), group.size());
    part_of_loss(model.forward(mine.data), mine, mine.data.size(0)).backward();
    optimizer.step();
  }
}

// r (i + o) words each way, and o for the bias.
TEST(RankDad, TwoWayCountsItsBytes) {
  constexpr int kRanks = 3;
  run_threads(kRanks, [&](const Group& group) {
    auto net = make_net(maker<PlainNetImpl>(true), at::kFloat, 1);
    DadParallel model(net, group, kTwoWay);
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    train(model, optimizer, 0, 3);
    constexpr std::int64_t kOnce = (2 * (12 + 20) + 20) * 4;
    for (const auto& route : model.routes()) {
      if (route.name != "first.weight") continue;
      EXPECT_EQ(route.last.sent, kOnce);
      EXPECT_EQ(route.last.received, group.rank() == 0 ? 2 * kOnce : kOnce);
      EXPECT_EQ(route.last.own_rows, 2);
      EXPECT_EQ(route.last.rows, 2) << "of the sum";
    }
    model.check_weights();
  });
}

// Six steps, or three, a checkpoint, and three.
void expect_same_after_a_checkpoint(const DadOptions& options) {
  NamedTensors saved;
  run_threads(2, [&](const Group& group) {
    auto net = make_net(maker<PlainNetImpl>(true), at::kFloat, 1);
    auto other = make_net(maker<PlainNetImpl>(true), at::kFloat, 2);
    DadParallel model(net, group, options);
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    train(model, optimizer, 0, 3);
    const NamedTensors mine = model.gather_state();
    if (group.rank() == 0) saved = mine;
    const auto weights = weights_of(*net);
    train(model, optimizer, 3, 6);  // others wait for rank 0's state in it

    DadParallel resumed(other, group, options);
    {
      const at::NoGradGuard no_grad;
      const auto parameters = other->parameters();
      for (std::size_t i = 0; i < parameters.size(); ++i)
        parameters[i].copy_(weights[i]);
    }
    resumed.load_state(saved);
    torch::optim::SGD again(other->parameters(), 0.1);
    train(resumed, again, 3, 6);
    EXPECT_EQ(distance(weights_of(*other), weights_of(*net)), 0);
  });
  EXPECT_GT(saved.size(), 1);
}

TEST(RankDad, GoesOnFromACheckpoint) {
  expect_same_after_a_checkpoint({.mode = DadMode::kRankDad, .rank = 1});
  expect_same_after_a_checkpoint(kTwoWay);
}

// What was left out is the same on average when ranks become more or fewer.
TEST(RankDad, FeedbackMovesToOtherNumbersOfRanks) {
  constexpr std::int64_t kIn = 6, kOut = 5;
  const BlockKey key{0, -1, {kIn, kOut, 1, kIn, 0, false}};
  const auto mean_left = [&](const NamedTensors& saved) {
    at::Tensor sum = at::zeros({kOut, kIn}, at::kDouble);
    for (std::size_t i = 1; i < saved.size(); i += 3)
      sum += saved[i + 2].second.t().mm(saved[i + 1].second);
    return sum / saved[0].second.item<double>();
  };
  const FactorExchangeOptions options{.low_rank = {.rank = 1}};
  NamedTensors saved;
  run_threads(2, [&](const Group& group) {
    FactorExchange exchange(group, {Route::kRankDad}, options);
    at::manual_seed(1);
    FactorParcel parcel;
    FactorPart& part = parcel.parts.emplace_back();
    part.block = key;
    part.factors = {at::rand({4, kIn}, at::kDouble) + group.rank(),
                    at::rand({4, kOut}, at::kDouble) - group.rank()};
    exchange.share(parcel);
    const NamedTensors state = exchange.gather_feedback();
    if (group.rank() == 0) saved = state;
  });
  const at::Tensor before = mean_left(saved);
  ASSERT_GT(before.norm().item<double>(), 1e-3);
  for (const int ranks : {1, 3}) {
    run_threads(ranks, [&](const Group& group) {
      FactorExchange exchange(group, {Route::kRankDad}, options);
      exchange.load_feedback(saved);
      const NamedTensors state = exchange.gather_feedback();
      if (group.rank() == 0)
        EXPECT_LT((mean_left(state) - before).norm().item<double>(), 1e-12);
    });
  }
}

}  // namespace
}  // namespace sheaf::parallel
