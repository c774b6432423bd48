#include "sheaf/plan/format/parcel_rules.hpp"

#include <gtest/gtest.h>

namespace sheaf::plan {
namespace {

constexpr FactorShape kShape{.rows = 10, .in = 300, .out = 100};

TEST(ParcelRules, BytesOfFactors) {
  EXPECT_EQ(input_bytes(kShape), 4 * 10 * 300);
  EXPECT_EQ(delta_bytes(kShape), 4 * 10 * 100);
  EXPECT_EQ(low_rank_bytes(kShape, 4, false), 4 * 4 * 400);
  EXPECT_EQ(low_rank_bytes(kShape, 4, true), 4 * (4 * 400 + 100));
  // There are no more rows than the layer has rows or outputs.
  EXPECT_EQ(low_rank_bytes(kShape, 50, false), 4 * 10 * 400);
  EXPECT_EQ(low_rank_bytes({.rows = 10, .in = 5, .out = 3}, 4, false),
            4 * 3 * 8);
  FactorShape lookup = kShape;
  lookup.is_lookup = true;
  lookup.width = 8;
  EXPECT_EQ(input_bytes(lookup), 10 * 8);
  EXPECT_EQ(delta_bytes(lookup), 8 * 10 * 100);
}

TEST(ParcelRules, WorkOfLowRank) {
  EXPECT_EQ(low_rank_operations(kShape, 6), 2 * 256 * 400 + 3 * 4096);
  EXPECT_EQ(gradient_rows(Route::kRankDad, kShape, 4, 30, 3), 12);
  EXPECT_EQ(gradient_rows(Route::kDad, kShape, 4, 30, 3), 30);
}

TEST(ParcelRules, DeltasFollowFromKnownDeltas) {
  EXPECT_TRUE(derives_deltas(Route::kEdad, Route::kDad));
  EXPECT_TRUE(derives_deltas(Route::kEdad, Route::kEdad));
  EXPECT_FALSE(derives_deltas(Route::kEdad, Route::kRankDad));
  EXPECT_FALSE(derives_deltas(Route::kEdad, Route::kGradients));
  EXPECT_FALSE(derives_deltas(Route::kEdad, std::nullopt));
  EXPECT_FALSE(derives_deltas(Route::kDad, Route::kDad));
}

TEST(ParcelRules, SmallLayersShareAParcel) {
  std::vector<ParcelItem> items(4, {Route::kDad, kShape});
  items[1].route = Route::kRankDad;
  // Inputs have 12,000 bytes, deltas 4,000. A parcel that has reached its size
  // is closed. Low-rank factors are sent in backward.
  const ParcelPlan plan = plan_parcels(items, {0, 1, 3}, 4001);
  EXPECT_EQ(plan.forward, (Parcels{{0}, {3}}));
  EXPECT_EQ(plan.backward, (Parcels{{3, 1}, {0}}));
  EXPECT_EQ(plan_parcels(items, {0, 1, 3}, 4000).backward,
            (Parcels{{3}, {1}, {0}}));
  EXPECT_TRUE(plan_parcels(items, {}).forward.empty());
}

// 1 + 4 + 25 parts numbers; 64 of them are in the first message.
TEST(ParcelRules, LongHeadersTakeTwoMessages) {
  EXPECT_EQ(header_bytes(2), (std::vector<double>{512}));
  EXPECT_EQ(header_bytes(3), (std::vector<double>{512, 8 * (80 - 64)}));
  EXPECT_EQ(parcel_messages(2, true), 2);
  EXPECT_EQ(parcel_messages(2, false), 1);
  EXPECT_EQ(parcel_messages(3, true), 3);
}

}  // namespace
}  // namespace sheaf::plan
