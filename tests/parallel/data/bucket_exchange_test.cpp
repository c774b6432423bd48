#include "sheaf/parallel/data/bucket_exchange.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "sheaf/base/error.hpp"
#include "tests/parallel/common/training.hpp"
#include "tests/parallel/data/many_parameters.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;
using comm::Group;
using comm::run_threads;

// Averages nothing; its state is one common tensor and one of each rank.
class StatefulExchange : public BucketExchange {
 public:
  explicit StatefulExchange(double own = 0) : own_(own) {}
  std::int64_t average(const Group&, Bucket&, int) override { return 0; }
  void reset() override { ++resets; }
  ExchangeState state() const override {
    return {.common = {{"q", at::full({2}, 5.0)}},
            .own = {{"error", at::full({3}, own_)}}};
  }
  void load(const ExchangeState& state) override { loaded.push_back(state); }

  int resets = 0;
  std::vector<ExchangeState> loaded;

 private:
  double own_;
};

TEST(BucketExchange, ForgetsAndRenumbersByReset) {
  StatefulExchange exchange;
  BucketExchange& any = exchange;
  any.forget();
  EXPECT_EQ(exchange.resets, 1);
  any.renumber({std::nullopt, 0});
  EXPECT_EQ(exchange.resets, 2);
  EXPECT_FALSE(any.takes_outside());
  EXPECT_FALSE(any.keeps_zeros());
}

TEST(BucketExchange, BelongsToOneModel) {
  run_threads(2, [](const Group& group) {
    const std::shared_ptr<BucketExchange> exchange =
        make_half_exchange(at::kHalf);
    Mlp net, other;
    {
      DataParallel model(net, group, {.exchange = exchange});
      EXPECT_THROW(DataParallel(other, group, {.exchange = exchange}),
                   UsageError);
    }
    DataParallel model(other, group, {.exchange = exchange});
  });
}

TEST(BucketExchange, IsFreeWhenItsClaimEnds) {
  const auto exchange = make_plain_exchange();
  {
    const ExchangeClaim claim(*exchange);
    expect_throws<UsageError>([&] { const ExchangeClaim other(*exchange); },
                              {"in use by another model"});
    // The failed attempt has not released the claim.
    EXPECT_THROW(ExchangeClaim{*exchange}, UsageError);
  }
  const ExchangeClaim claim(*exchange);
}

// Entries that differ between ranks are stacked; other ranks get nothing of
// them.
TEST(BucketExchange, TheStateOfAllRanksIsGathered) {
  run_threads(3, [](const Group& group) {
    const StatefulExchange exchange(group.rank() + 1);
    const auto state = gather_exchange_state(group, &exchange);
    ASSERT_EQ(state.size(), group.rank() == 0 ? 2u : 1u);
    EXPECT_EQ(state[0].first, "common/q");
    EXPECT_TRUE(state[0].second.equal(at::full({2}, 5.0)));
    EXPECT_TRUE(gather_exchange_state(group, nullptr).empty());
    if (group.rank() > 0) return;
    EXPECT_EQ(state[1].first, "own/error");
    EXPECT_TRUE(state[1].second.equal(
        at::arange(1, 4, at::kFloat).unsqueeze(1).expand({3, 3})));
  });
}

TEST(BucketExchange, AStateIsLoadedByRankOrAsTheMean) {
  const ExchangeState::Named saved{
      {"common/q", at::ones({2})},
      {"plan/route/a", at::ones({1})},
      {"own/error", at::arange(6, at::kFloat).view({2, 3})}};
  for (const int ranks : {1, 2, 3})
    run_threads(ranks, [&](const Group& group) {
      StatefulExchange exchange;
      load_exchange_state(group, &exchange, saved);
      ASSERT_EQ(exchange.loaded.size(), 1u);
      const auto& [common, own] = exchange.loaded[0];
      ASSERT_EQ(common.size(), 1u);
      EXPECT_EQ(common[0].first, "q");
      ASSERT_EQ(own.size(), 1u);
      EXPECT_EQ(own[0].first, "error");
      const double first = ranks == 2 ? 3.0 * group.rank() : 1.5;
      EXPECT_TRUE(own[0].second.equal(at::arange(3, at::kFloat) + first));
      load_exchange_state(group, nullptr, saved);  // there is no exchange
    });
}

TEST(BucketExchange, AStateOfOthersIsNotLoaded) {
  run_threads(1, [](const Group& group) {
    StatefulExchange exchange;
    load_exchange_state(group, &exchange, {{"plan/route/a", at::ones({1})}});
    EXPECT_TRUE(exchange.loaded.empty());
  });
}

TEST(BucketExchange, AveragesWithTheDivisor) {
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf})
    run_threads(3, [&](const Group& group) {
      for (const int divisor : {1, 2, 3}) {
        // 4, 8 and 12: all averages are exact, also in 16 bits.
        const at::Tensor data = at::full({5}, 4.0 * (group.rank() + 1), type);
        average_over(group, data, divisor, "test");
        EXPECT_TRUE(data.equal(at::full({5}, 24.0 / divisor, type)))
            << type << " " << divisor;
      }
    });
}

TEST(PlainExchange, AveragesTheBlockAndWhatIsOutside) {
  run_threads(2, [](const Group& group) {
    const auto exchange = make_plain_exchange();
    EXPECT_TRUE(exchange->takes_outside());
    EXPECT_TRUE(exchange->keeps_zeros());
    Bucket bucket(group, {{at::empty({4}), 0},
                          {at::empty({2, 3}), 1, /*is_exchanged_alone=*/true}});
    bucket.put(0, at::full({4}, 1.0 + group.rank()));
    bucket.put(1, at::full({2, 3}, 5.0 + 2 * group.rank()));
    EXPECT_EQ(exchange->average(group, bucket, 2), bucket.bytes());
    EXPECT_TRUE(bucket.gradient(0).equal(at::full({4}, 1.5)));
    EXPECT_TRUE(bucket.gradient(1).equal(at::full({2, 3}, 6.0)));
  });
}

TEST(HalfExchange, RoundsToSixteenBits) {
  for (const auto type : {at::kHalf, at::kBFloat16})
    run_threads(2, [=](const Group& group) {
      Mlp net;
      Mlp twin;
      DataParallel model(net, group, {.exchange = make_half_exchange(type)});
      DataParallel plain(twin, group);
      {
        const torch::NoGradGuard no_grad;
        for (std::size_t i = 0; i < net->parameters().size(); ++i)
          twin->parameters()[i].copy_(net->parameters()[i]);
      }
      const Examples mine =
          share_of(examples(0, 12, at::kFloat), group.rank(), 2);
      part_of_loss(model.forward(mine.data), mine, 12).backward();
      part_of_loss(plain.forward(mine.data), mine, 12).backward();
      const double eps = type == at::kHalf ? 1e-3 : 8e-3;
      for (std::size_t i = 0; i < net->parameters().size(); ++i) {
        const auto& got = net->parameters()[i].grad();
        const auto& want = twin->parameters()[i].grad();
        EXPECT_LE((got - want).abs().max().item<double>(),
                  2 * eps * want.abs().max().item<double>() + 1e-7);
      }
      EXPECT_LT(model.stats().bytes, plain.stats().bytes * 0.51);
      model.check_weights();
    });
}

// 40,000 is representable in f16, the sum of two such numbers is not.
TEST(HalfExchange, AveragesOfSomeRanksFitSixteenBits) {
  run_threads(3, [](const Group& group) {
    Many net(1);
    DataParallel model(net, group, {.exchange = make_half_exchange(at::kHalf)});
    auto join = model.join({.divide_by_active_ranks = true});
    if (group.rank() > 0) {
      model.forward(std::vector{0}, 40000.0).backward();
      const double got = net->gradient(0)[0].item<double>();
      EXPECT_NEAR(got, 40000, 64);  // two roundings to 16 bits
    }
    join.finish();
  });
}

// There is no state; values that overflow in the message are infinite on all
// ranks.
TEST(HalfExchange, WhatOverflowsIsInfiniteOnAllRanks) {
  run_threads(2, [](const Group& group) {
    const auto exchange = make_half_exchange(at::kHalf);
    Bucket bucket(group, {{at::empty({4}), 0}});
    const auto average = [&](std::vector<float> values) {
      bucket.put(0, at::tensor(values));
      exchange->average(group, bucket, 2);
      return bucket.gradient(0).clone();
    };
    const bool is_second = group.rank() == 1;
    const at::Tensor got =
        average({1, is_second ? 1e6f : 1, is_second ? NAN : 1, 4});
    EXPECT_TRUE(at::isfinite(got).equal(
        at::tensor(std::vector<int>{1, 0, 0, 1}).to(at::kBool)));
    EXPECT_TRUE(std::isinf(got[1].item<float>()));
    EXPECT_TRUE(average({1, 2, 3, 4})
                    .equal(at::tensor(std::vector<float>{1, 2, 3, 4})));
  });
}

TEST(HalfExchange, SendsTwoBytesPerElement) {
  run_threads(2, [](const Group& group) {
    const auto exchange = make_half_exchange(at::kBFloat16);
    EXPECT_FALSE(exchange->takes_outside());
    EXPECT_TRUE(exchange->keeps_zeros());
    Bucket bucket(group, {{at::empty({64}), 0}});
    for (int pass = 0; pass < 2; ++pass) {
      bucket.put(0, at::full({64}, 2.0 * group.rank()));
      EXPECT_EQ(exchange->average(group, bucket, 2),
                2 * bucket.shared().numel());
      EXPECT_TRUE(bucket.gradient(0).equal(at::ones({64})));
      exchange->reset();
    }
  });
}

}  // namespace
}  // namespace sheaf::parallel
