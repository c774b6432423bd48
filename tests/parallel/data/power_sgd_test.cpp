#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/parallel/common/gradients.hpp"
#include "sheaf/parallel/data/bucket_exchange.hpp"
#include "sheaf/parallel/data/data_parallel.hpp"
#include "sheaf/parallel/precision/loss_scale.hpp"
#include "sheaf/tensor/groups/collectives.hpp"

namespace sheaf::parallel {
namespace {

using comm::Group;
using comm::run_threads;

// Two buckets with a matrix and a vector each, and an exchange.
class Buckets {
 public:
  Buckets(const Group& group, at::ScalarType type,
          const PowerSgdOptions& options)
      : group_(group),
        type_(type),
        exchange_(make_power_sgd_exchange(options)) {
    for (std::size_t i = 0; i < 2; ++i)
      buckets_.push_back(std::make_unique<Bucket>(
          group, std::vector<BucketMember>{{at::empty({24, 20}, type), 2 * i},
                                           {at::empty({7}, type), 2 * i + 1}}));
  }

  // By parameter: the result on all ranks for the gradients that they pass.
  std::vector<at::Tensor> average(const std::vector<at::Tensor>& gradients) {
    std::vector<at::Tensor> averages;
    for (std::size_t i = 0; i < gradients.size(); ++i)
      buckets_[i / 2]->put(i % 2, gradients[i].to(type_));
    exchange_->begin_pass();
    for (const auto& bucket : buckets_)
      exchange_->average(group_, *bucket, group_.size());
    for (std::size_t i = 0; i < gradients.size(); ++i)
      averages.push_back(buckets_[i / 2]->gradient(i % 2).clone());
    return averages;
  }
  ExchangeState state() const { return exchange_->state(); }
  void load(const ExchangeState& state) { exchange_->load(state); }

 private:
  Group group_;
  at::ScalarType type_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::unique_ptr<BucketExchange> exchange_;
};

std::vector<at::Tensor> random_gradients(int step, int rank) {
  auto generator = at::detail::createCPUGenerator(
      static_cast<std::uint64_t>(100 * step + rank));
  std::vector<at::Tensor> list;
  for (int i = 0; i < 2; ++i) {
    list.push_back(at::randn({24, 20}, generator));
    list.push_back(at::randn({7}, generator));
  }
  return list;
}

void expect_same_checksums(const std::vector<at::Tensor>& a,
                           const std::vector<at::Tensor>& b,
                           const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(checksum(a[i]), checksum(b[i])) << what << ", parameter " << i;
}

// Expects the plain average of these gradients, on both ranks.
void expect_plain(const std::vector<at::Tensor>& got,
                  const std::vector<at::Tensor>& of_0,
                  const std::vector<at::Tensor>& of_1, at::ScalarType type) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const at::Tensor want = (of_0[i].to(type) + of_1[i].to(type)) / 2;
    EXPECT_TRUE(at::isfinite(got[i]).equal(at::isfinite(want)))
        << "parameter " << i;
  }
}

constexpr PowerSgdOptions kTwo{.rank = 2, .start_step = 0};

// In either bucket, in a matrix or a vector, on one rank.
TEST(PowerSgd, AStepThatIsNotFiniteShowsOnAllRanksAndLeavesNoTrace) {
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16})
    for (const double bad : {double(INFINITY), double(NAN)})
      for (std::size_t where = 0; where < 4; ++where)
        run_threads(2, [&](const Group& group) {
          SCOPED_TRACE(testing::Message()
                       << type << ", " << bad << " in parameter " << where);
          Buckets with(group, type, kTwo);
          Buckets without(group, type, kTwo);
          for (int step = 0; step < 6; ++step) {
            if (step == 3) {
              std::vector<std::vector<at::Tensor>> given{
                  random_gradients(99, 0), random_gradients(99, 1)};
              given[1][where].view(-1)[5] = bad;
              const auto rank = static_cast<std::size_t>(group.rank());
              const auto got = with.average(given[rank]);
              EXPECT_FALSE(at::isfinite(got[where]).all().item<bool>());
              // The other bucket is compressed, but finite.
              expect_plain({got[where]}, {given[0][where]}, {given[1][where]},
                           type);
              const ExchangeState a = with.state(), b = without.state();
              for (std::size_t i = 0; i < a.own.size(); ++i)
                EXPECT_TRUE(a.own[i].second.equal(b.own[i].second));
              for (std::size_t i = 1; i < a.common.size(); ++i)
                EXPECT_TRUE(a.common[i].second.equal(b.common[i].second));
            }
            const auto given = random_gradients(step, group.rank());
            expect_same_checksums(with.average(given), without.average(given),
                                  concat("step ", step));
          }
        });
}

// P may overflow f16 even if no gradient does.
TEST(PowerSgd, FactorsOutOfRangeAreAveragedAsTheyAre) {
  run_threads(2, [](const Group& group) {
    Buckets buckets(group, at::kHalf, kTwo);
    auto given = random_gradients(1, group.rank());
    given[0] = at::full({24, 20}, 40000.0);
    const auto got = buckets.average(given);
    EXPECT_TRUE(got[0].equal(at::full({24, 20}, 40000.0, at::kHalf)));
    EXPECT_TRUE(
        at::isfinite(buckets.average(random_gradients(2, group.rank()))[0])
            .all()
            .item<bool>());
  });
}

// Of rank one or two, of any magnitude, and after a gradient of zeros.
TEST(PowerSgd, FindsMatricesOfLowRankOfAnySize) {
  for (const double size : {1e-30, 1.0, 1e30})
    for (const int rank : {1, 2})
      run_threads(2, [&](const Group& group) {
        Buckets buckets(group, at::kFloat, kTwo);
        auto generator = at::detail::createCPUGenerator(7);
        const at::Tensor matrix = at::randn({24, rank}, generator)
                                      .mm(at::randn({rank, 20}, generator)) *
                                  size;
        auto given = random_gradients(0, group.rank());
        given[0] = at::zeros({24, 20});
        EXPECT_EQ(buckets.average(given)[0].abs().max().item<double>(), 0);
        for (int step = 0; step < 3; ++step) {
          given[0] = matrix;
          const at::Tensor got = buckets.average(given)[0];
          EXPECT_LE((got - matrix).abs().max().item<double>(),
                    1e-5 * matrix.abs().max().item<double>())
              << size << ", step " << step;
        }
      });
}

// The matrix is defined by its axes, whatever its order in memory.
TEST(PowerSgd, FindsLowRankOfTransposedMatrices) {
  run_threads(2, [](const Group& group) {
    const at::Tensor like = at::empty({20, 24}).t();
    Bucket bucket(group, {{like, 0}});
    const auto exchange = make_power_sgd_exchange(kTwo);
    auto generator = at::detail::createCPUGenerator(7);
    const at::Tensor matrix =
        at::randn({24, 1}, generator).mm(at::randn({1, 20}, generator));
    bucket.put(0, matrix);
    ASSERT_FALSE(bucket.gradient(0).is_contiguous());
    exchange->begin_pass();
    exchange->average(group, bucket, group.size());
    EXPECT_LE((bucket.gradient(0) - matrix).abs().max().item<double>(),
              1e-5 * matrix.abs().max().item<double>());
  });
}

// The sum of the inputs equals the results plus the errors that ranks keep.
TEST(PowerSgd, NothingIsLost) {
  run_threads(2, [](const Group& group) {
    Buckets buckets(group, at::kDouble, kTwo);
    at::Tensor sum = at::zeros({24, 20}, at::kDouble);
    for (int step = 0; step < 200; ++step) {
      const at::Tensor mean = (random_gradients(step, 0)[0].to(at::kDouble) +
                               random_gradients(step, 1)[0].to(at::kDouble)) /
                              2;
      sum += mean - buckets.average(random_gradients(step, group.rank()))[0];
    }
    at::Tensor error = buckets.state().own[0].second.clone();
    std::vector<double> values(error.data_ptr<double>(),
                               error.data_ptr<double>() + error.numel());
    comm::all_reduce(group, values).wait();
    const at::Tensor kept =
        at::from_blob(values.data(), {24, 20}, at::kDouble) / 2;
    EXPECT_LE((sum - kept).norm().item<double>(),
              1e-9 * kept.norm().item<double>());
  });
}

struct PairImpl : torch::nn::Module {
  PairImpl() {
    v = register_parameter("v", at::zeros({24, 20}, at::kDouble));
    w = register_parameter("w", at::zeros({24, 20}, at::kDouble));
  }
  at::Tensor forward(const at::Tensor& of_v, const at::Tensor& of_w) {
    return (v * of_v).sum() + (w * of_w).sum();
  }
  at::Tensor v, w;
};
TORCH_MODULE(Pair);

// Matrices of equal sizes, the first of which is frozen later.
TEST(PowerSgd, WhatIsKeptStaysWithItsParameter) {
  run_threads(2, [](const Group& group) {
    Pair net;
    const std::shared_ptr<BucketExchange> exchange =
        make_power_sgd_exchange(kTwo);
    DataParallel model(net, group, {.exchange = exchange});
    at::Tensor sum = at::zeros({24, 20}, at::kDouble);
    for (int step = 0; step < 20; ++step) {
      if (step == 10) net->v.set_requires_grad(false);
      net->v.mutable_grad().reset();
      net->w.mutable_grad().reset();
      const auto given = random_gradients(step, group.rank());
      model.forward(given[0].to(at::kDouble), given[2].to(at::kDouble))
          .backward();
      const at::Tensor mean = (random_gradients(step, 0)[2].to(at::kDouble) +
                               random_gradients(step, 1)[2].to(at::kDouble)) /
                              2;
      sum += mean - net->w.grad();
    }
    const auto own = exchange->state().own;
    ASSERT_EQ(own.size(), 1u);
    const at::Tensor kept = own[0].second.clone();
    tensor::all_reduce(group, kept, {.op = comm::ReduceOp::kAvg}).wait();
    EXPECT_LE((sum - kept).norm().item<double>(),
              1e-9 * kept.norm().item<double>());
  });
}

// The error memory survives a change of the rank between two runs.
TEST(PowerSgd, AnotherRankGoesOnWithWhatWasLost) {
  run_threads(2, [](const Group& group) {
    for (const int rank : {1, 3}) {
      Buckets before(group, at::kDouble, kTwo);
      before.average(random_gradients(0, group.rank()));
      const at::Tensor lost = before.state().own[0].second;
      Buckets after(group, at::kDouble, {.rank = rank, .start_step = 0});
      after.load(before.state());
      std::vector<at::Tensor> none;
      for (const at::Tensor& one : random_gradients(0, 0))
        none.push_back(at::zeros_like(one));
      const at::Tensor got = after.average(none)[0];
      const at::Tensor left = after.state().own[0].second;
      EXPECT_LE((got + left - lost).norm().item<double>(),
                1e-9 * lost.norm().item<double>());
      EXPECT_GT(got.norm().item<double>(), 0);
    }
  });
}

// The gradient of `v`, in the last bucket, fails; `w` has been averaged before.
TEST(PowerSgd, ABackwardThatThrowsLeavesNoTrace) {
  run_threads(2, [](const Group& group) {
    const auto train = [&](bool throws) {
      Pair net;
      DataParallel model(net, group,
                         {.bucket_mb = 1e-5,
                          .first_bucket_mb = 1e-5,
                          .overlap = Overlap::kOn,
                          .exchange = make_power_sgd_exchange(kTwo)});
      std::vector<at::Tensor> got;
      for (int step = 0; step < 6; ++step) {
        const auto given = random_gradients(step, group.rank());
        const auto pass = [&](bool fails) {
          net->v.mutable_grad().reset();
          net->w.mutable_grad().reset();
          at::Tensor v = given[0].to(at::kDouble).set_requires_grad(true);
          v.register_hook([fails](const at::Tensor& gradient) {
            if (fails) throw std::runtime_error("as asked");
            return gradient;
          });
          model.forward(v, given[2].to(at::kDouble)).backward();
        };
        if (throws && step == 3) EXPECT_ANY_THROW(pass(true));
        pass(false);
        got.push_back(net->v.grad().clone());
        got.push_back(net->w.grad().clone());
      }
      return got;
    };
    expect_same_checksums(train(true), train(false),
                          "after a backward that threw");
  });
}

struct WideImpl : torch::nn::Module {
  WideImpl() { w = register_parameter("w", torch::zeros({600, 500})); }
  at::Tensor forward(const at::Tensor& g) { return (w * g).sum(); }
  at::Tensor w;
};

TEST(PowerSgd, RanksWithOtherNumbersOfThreadsGetTheSameBits) {
  run_threads(2, [](const Group& group) {
    at::get_num_threads();  // otherwise set by the first use in this thread
    at::set_num_threads(1 + group.rank());
    auto net = std::make_shared<WideImpl>();
    DataParallel model(
        net, group,
        {.exchange = make_power_sgd_exchange({.rank = 4, .start_step = 0})});
    for (int step = 0; step < 4; ++step) {
      forget_gradients(*net);
      auto generator = at::detail::createCPUGenerator(
          static_cast<std::uint64_t>(10 * step + group.rank()));
      model.forward(at::randn({600, 500}, generator)).backward();
      check_same_bits(group, {{"the average", net->w.grad()}});
    }
  });
  at::set_num_threads(1);
}

// One overflow causes one skipped step.
TEST(PowerSgd, ALossScaleSkipsOneStep) {
  run_threads(2, [](const Group& group) {
    auto net = std::make_shared<WideImpl>();
    DataParallel model(
        net, group,
        {.exchange = make_power_sgd_exchange({.rank = 2, .start_step = 0})});
    LossScale scale({.start = 8});
    int skipped = 0;
    for (int step = 0; step < 20; ++step) {
      forget_gradients(*net);
      at::Tensor given = at::full({600, 500}, 0.5 + group.rank());
      if (step == 2 && group.rank() == 1) given[3][4] = INFINITY;
      scale.scaled(model.forward(given)).backward();
      if (!scale.unscale(net->parameters(), group)) {
        ++skipped;
        continue;
      }
      // Sums of 600 and of 500 equal f32 terms: their rounding errors have one
      // sign, so each sum is off by up to 2^-24 of it per term, and both occur
      // twice: in the products and in the norms that divide them.
      const double bound = std::ldexp(2.0 * (600 + 500), -24);  // 1.3e-4
      EXPECT_NEAR(net->w.grad().mean().item<double>(), 1, bound);
    }
    EXPECT_EQ(skipped, 1);
  });
}

// The rest of one step is sent later: the sum of the results of all steps stays
// close to the sum of the true gradients.
TEST(PowerSgd, FeedsErrorsBack) {
  run_threads(2, [](const Group& group) {
    struct OneImpl : torch::nn::Module {
      OneImpl() { w = register_parameter("w", torch::zeros({24, 20})); }
      at::Tensor forward(const at::Tensor& g) { return (w * g).sum(); }
      at::Tensor w;
    };
    auto net = std::make_shared<OneImpl>();
    DataParallel model(
        net, group,
        {.exchange = make_power_sgd_exchange({.rank = 2, .start_step = 0})});
    auto generator = at::detail::createCPUGenerator(3);
    const at::Tensor both = at::randn({2, 24, 20}, generator);
    at::Tensor sum = torch::zeros({24, 20});
    constexpr int kSteps = 400;
    for (int step = 0; step < kSteps; ++step) {
      forget_gradients(*net);
      model.forward(both[group.rank()]).backward();
      sum += net->w.grad();
    }
    const at::Tensor mean = both.mean(0);
    EXPECT_LT((sum / kSteps - mean).norm().item<double>(),
              0.1 * mean.norm().item<double>());
    EXPECT_LT(model.stats().bytes, kSteps * 24 * 20 * 4 / 2);
  });
}

}  // namespace
}  // namespace sheaf::parallel
