#include <gtest/gtest.h>

#include <cmath>

#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/parallel/dad/dad_parallel.hpp"
#include "sheaf/parallel/data/bucket_exchange.hpp"
#include "tests/parallel/dad/dad_training.hpp"
#include "tests/parallel/dad/factor_parts.hpp"

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
void train_steps(Model& model, torch::optim::SGD& optimizer, int first,
                 int last) {
  const Group& group = model.group();
  for (int step = first; step < last; ++step) {
    optimizer.zero_grad();
    const Examples mine = share_of(examples(step, kBatch, at::kFloat),
                                   group.rank(), group.size());
    part_of_loss(model.forward(mine.data), mine, mine.data.size(0)).backward();
    optimizer.step();
  }
}

// r (i + o) words in each direction, and o for the bias.
TEST(RankDad, TwoWayCountsItsBytes) {
  constexpr int kRanks = 3;
  run_threads(kRanks, [&](const Group& group) {
    auto net = make_net(maker<PlainNetImpl>(true), at::kFloat, 1);
    DadParallel model(net, group, kTwoWay);
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    train_steps(model, optimizer, 0, 3);
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

// Compares six steps with three steps, a checkpoint, and three more steps.
void expect_same_after_a_checkpoint(
    const std::function<DadOptions()>& options) {
  NamedTensors saved;
  run_threads(2, [&](const Group& group) {
    auto net = make_net(maker<PlainNetImpl>(true), at::kFloat, 1);
    auto other = make_net(maker<PlainNetImpl>(true), at::kFloat, 2);
    DadParallel model(net, group, options());
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    train_steps(model, optimizer, 0, 3);
    const NamedTensors mine = model.gather_state();
    if (group.rank() == 0) saved = mine;
    const auto weights = weights_of(*net);
    // The other ranks wait for rank 0's state in it.
    train_steps(model, optimizer, 3, 6);

    DadParallel resumed(other, group, options());
    {
      const at::NoGradGuard no_grad;
      const auto parameters = other->parameters();
      for (std::size_t i = 0; i < parameters.size(); ++i)
        parameters[i].copy_(weights[i]);
    }
    resumed.load_state(saved);
    torch::optim::SGD again(other->parameters(), 0.1);
    train_steps(resumed, again, 3, 6);
    EXPECT_EQ(distance(weights_of(*other), weights_of(*net)), 0);
  });
  EXPECT_GT(saved.size(), 1);
}

TEST(RankDad, GoesOnFromACheckpoint) {
  expect_same_after_a_checkpoint(
      [] { return DadOptions{.mode = DadMode::kRankDad, .rank = 1}; });
  expect_same_after_a_checkpoint([] { return kTwoWay; });
}

// The error feedback of gradients sent with PowerSGD, alone and combined with
// that of factors.
TEST(RankDad, PowerSgdGoesOnFromACheckpoint) {
  for (const Route last : {Route::kGradient, Route::kRankDad})
    expect_same_after_a_checkpoint([&] {
      DadOptions options{.mode = DadMode::kRankDad, .rank = 1};
      options.routes = {{"first.weight", Route::kGradient},
                        {"last.weight", last}};
      options.exchange = make_power_sgd_exchange({.start_step = 0});
      return options;
    });
}

std::vector<at::Tensor> gradients_of(const torch::nn::Module& net) {
  std::vector<at::Tensor> list;
  for (const at::Tensor& one : net.parameters())
    list.push_back(one.grad().detach().clone());
  return list;
}

// The results of a model and its exchange for some batches, without steps: the
// weights stay the same.
class Passes {
 public:
  Passes(const Group& group, at::ScalarType type, const DadOptions& options)
      : net_(make_net(maker<PlainNetImpl>(true), type, 1)),
        model_(net_, group, with_link(options, group)) {}

  std::vector<at::Tensor> gradients(const Examples& mine, double scale = 1) {
    net_->zero_grad();
    const at::Tensor loss =
        part_of_loss(model_.forward(mine.data), mine, mine.data.size(0));
    (loss * scale).backward();
    return gradients_of(*net_);
  }

 private:
  static DadOptions with_link(DadOptions options, const Group& group) {
    options.link = LinkModel{.ranks = group.size()};
    return options;
  }
  std::shared_ptr<PlainNetImpl> net_;
  DadParallel<PlainNetImpl> model_;
};

Examples batch_of(int step, const Group& group, at::ScalarType type) {
  return share_of(examples(step, kBatch, type), group.rank(), group.size());
}

// There are no more distinct rows than the rank, so nothing is lost.
TEST(RankDad, RowsThatRepeatAreExact) {
  for (const auto type : {at::kFloat, at::kDouble})
    run_threads(2, [&](const Group& group) {
      Passes exact(group, type, {});
      Passes few(group, type, {.mode = DadMode::kRankDad, .rank = 4});
      for (int step = 0; step < 30; ++step) {
        Examples mine = batch_of(step, group, type);
        const at::Tensor which = at::arange(16).remainder(3).to(at::kLong);
        mine.data = mine.data.index_select(0, which);
        mine.target = mine.target.index_select(0, which);
        ASSERT_LE(distance(few.gradients(mine), exact.gradients(mine)),
                  type == at::kDouble ? 1e-12 : 2e-5);
      }
    });
}

std::vector<DadOptions> ways_with_feedback() {
  return {{.mode = DadMode::kRankDad, .rank = 1},
          {.mode = DadMode::kRankDad, .rank = 1, .overlap = Overlap::kOn},
          kTwoWay};
}

// A step that cannot be taken leaves the kept rest unchanged.
TEST(RankDad, AStepThatIsNotFiniteShowsOnAllRanksAndLeavesNoTrace) {
  for (const DadOptions& options : ways_with_feedback())
    for (const double bad : {double(INFINITY), double(NAN)})
      run_threads(2, [&](const Group& group) {
        Passes with(group, at::kFloat, options);
        Passes without(group, at::kFloat, options);
        Passes exact(group, at::kFloat, {});
        for (int step = 0; step < 6; ++step) {
          const Examples mine = batch_of(step, group, at::kFloat);
          if (step == 3) {
            Examples other = batch_of(99, group, at::kFloat);
            other.data = other.data.clone();
            if (group.rank() == 1) other.data[2][3] = bad;
            const auto got = with.gradients(other);
            const auto want = exact.gradients(other);
            for (std::size_t i = 0; i < got.size(); ++i)
              EXPECT_TRUE(at::isfinite(got[i])
                              .logical_and(at::isfinite(want[i]).logical_not())
                              .sum()
                              .item<std::int64_t>() == 0)
                  << "finite where the average is not, parameter " << i;
            EXPECT_FALSE(at::isfinite(got[0]).all().item<bool>());
          }
          const auto a = with.gradients(mine), b = without.gradients(mine);
          for (std::size_t i = 0; i < a.size(); ++i)
            EXPECT_TRUE(a[i].equal(b[i])) << "step " << step << ", " << i;
        }
      });
}

// The maximum of f16 is 65504. All ranks compute with the rounded values.
TEST(RankDad, WhatOverflowsOnTheWireIsNotFiniteOnAllRanksAlike) {
  std::vector<DadOptions> all = ways_with_feedback();
  all.push_back({.mode = DadMode::kDad});
  all.push_back({.mode = DadMode::kEdad});
  all.push_back({.mode = DadMode::kDad, .skips_zeros = true});
  for (DadOptions options : all) {
    options.wire = at::kHalf;
    run_threads(2, [&](const Group& group) {
      Passes with(group, at::kFloat, options);
      Passes without(group, at::kFloat, options);
      for (int step = 0; step < 5; ++step) {
        const Examples mine = batch_of(step, group, at::kFloat);
        if (step == 2) {
          const auto got = with.gradients(batch_of(99, group, at::kFloat),
                                          group.rank() == 1 ? 1e9 : 1);
          EXPECT_FALSE(at::isfinite(got[0]).all().item<bool>());
          NamedTensors shown;
          for (const at::Tensor& one : got)
            shown.emplace_back("finite", at::isfinite(one).to(at::kFloat));
          check_same_bits(group, shown);
        }
        const auto a = with.gradients(mine), b = without.gradients(mine);
        for (std::size_t i = 0; i < a.size(); ++i) {
          EXPECT_TRUE(at::isfinite(a[i]).all().item<bool>());
          EXPECT_TRUE(a[i].equal(b[i])) << "step " << step << ", " << i;
        }
      }
    });
  }
}

// Ranks with different numbers of threads multiply with portable loops.
TEST(RankDad, RanksWithOtherNumbersOfThreadsGetTheSameBits) {
  for (const DadMode mode : {DadMode::kDad, DadMode::kEdad, DadMode::kRankDad})
    for (const bool is_alike : {true, false})
      run_threads(2, [&](const Group& group) {
        use_threads(is_alike ? 1 : 1 + group.rank());
        Passes exact(group, at::kDouble, {});
        Passes passes(group, at::kDouble, {.mode = mode, .rank = 20});
        for (int step = 0; step < 3; ++step) {
          const Examples mine = batch_of(step, group, at::kDouble);
          const auto got = passes.gradients(mine);
          EXPECT_LE(distance(got, exact.gradients(mine)), 1e-12);
          for (const at::Tensor& one : got)
            check_same_bits(group, {{"a gradient", one}});
        }
      });
  at::set_num_threads(1);
}

}  // namespace
}  // namespace sheaf::parallel
