#include "sheaf/parallel/dad/parcel_exchange.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/world.hpp"

namespace sheaf::parallel {
namespace {

using comm::Group;
using comm::run_threads;

const WeightView kView{.in = 3, .out = 2, .in_stride = 1, .out_stride = 3};

PackedParcel parcel_of(const ParcelExchange& exchange, double input,
                       double delta) {
  PackedParcel parcel{.name = "deltas 0",
                      .place = {exchange.pass(), 0},
                      .parts = {},
                      .remainders = {},
                      .is_backward = true};
  parcel.parts.push_back({{0, -1, kView},
                          {},
                          {torch::full({2, 3}, input)},
                          {torch::full({2, 2}, delta)},
                          {}});
  return parcel;
}

TEST(ParcelExchange, MultipliesTheRowsOfAllRanks) {
  run_threads(2, [](const Group& group) {
    const std::vector<TrainedParameter> parameters{{"w", torch::ones({2, 3})}};
    ParcelExchange exchange(parameters, group, {Route::kDad}, {}, nullptr);
    for (int pass = 1; pass <= 2; ++pass) {
      exchange.begin_pass(at::kCPU);
      EXPECT_EQ(exchange.pass(), pass);
      EXPECT_FALSE(exchange.made_gradient(0).defined());
      exchange.send(parcel_of(exchange, group.rank() + 1, pass));
      exchange.make_gradient(0);
      // Two rows on each rank: (2 * 1 + 2 * 2) * pass / 2.
      EXPECT_TRUE(
          exchange.made_gradient(0).equal(torch::full({2, 3}, 3.0 * pass)));
      exchange.end_pass();
      exchange.clear();
      EXPECT_EQ(exchange.stats_of(0).rows, 4);
      EXPECT_EQ(exchange.stats_of(0).own_rows, 2);
      EXPECT_EQ(exchange.stats_of(0).sent, exchange.stats_of(0).received);
      EXPECT_FALSE(exchange.source_of(0));
    }
    EXPECT_EQ(exchange.stats().passes, 2);
    EXPECT_EQ(exchange.stats().buckets, 2);
    EXPECT_EQ(exchange.stats().bytes, 2 * 4 * (2 * 3 + 2 * 2));
  });
}

TEST(ParcelExchange, CollectsTheRemaindersOfAllRanks) {
  run_threads(3, [](const Group& group) {
    const std::vector<TrainedParameter> parameters(3,
                                                   {"w", torch::ones({2, 3})});
    ParcelExchange exchange(parameters, group, std::vector(3, Route::kDad), {},
                            nullptr);
    exchange.begin_pass(at::kCPU);
    PackedParcel parcel{
        .name = "deltas 0", .place = {1, 0}, .parts = {}, .remainders = {}};
    if (group.rank() == 1) parcel.remainders = {2};
    exchange.send(parcel);
    EXPECT_FALSE(exchange.has_remainder(0));
    EXPECT_TRUE(exchange.has_remainder(2));
    exchange.clear();
    EXPECT_FALSE(exchange.has_remainder(2));
  });
}

TEST(ParcelExchange, RanksInDifferentPassesAreAnErrorOnAll) {
  run_threads(2, [](const Group& group) {
    const std::vector<TrainedParameter> parameters{{"w", torch::ones({2, 3})}};
    ParcelExchange exchange(parameters, group, {Route::kDad}, {}, nullptr);
    exchange.begin_pass(at::kCPU);
    if (group.rank() == 1) exchange.end_pass();
    EXPECT_THROW(exchange.send(parcel_of(exchange, 1, 1)), UsageError);
  });
}

// A discarded pass keeps its number.
TEST(ParcelExchange, OnlySuccessfulPassesCount) {
  run_threads(1, [](const Group& group) {
    const std::vector<TrainedParameter> parameters{{"w", torch::ones({2, 3})}};
    ParcelExchange exchange(parameters, group, {Route::kDad}, {}, nullptr);
    exchange.begin_pass(at::kCPU);
    exchange.send(parcel_of(exchange, 1, 1));
    exchange.clear();
    EXPECT_EQ(exchange.pass(), 1);
    EXPECT_EQ(exchange.stats().passes, 0);
    exchange.make_gradient(0);
    EXPECT_FALSE(exchange.made_gradient(0).defined());
  });
}

}  // namespace
}  // namespace sheaf::parallel
