#include "sheaf/plan/format/bucket_rules.hpp"

#include <gtest/gtest.h>

namespace sheaf::plan {
namespace {

using Buckets = std::vector<std::vector<std::size_t>>;

TEST(BucketRules, KeepCapsTypesAndOrder) {
  const std::vector<BucketItem> items{{4, 0},   {8, 1}, {4, 0},
                                      {100, 0}, {4, 1}, {4, 0, 0, true}};
  EXPECT_EQ(plan_buckets(items, {0, 1, 2, 3, 4, 5}, {8, 16}),
            (Buckets{{1}, {0, 2}, {3}, {5}, {4}}));
}

TEST(BucketRules, PlacementsDoNotMix) {
  const std::vector<BucketItem> items{{4, 0, 0}, {4, 0, 1}, {4, 0, 0}};
  EXPECT_EQ(plan_buckets(items, {0, 1, 2}, {}), (Buckets{{0, 2}, {1}}));
}

TEST(BucketRules, LargeGradientsInHostMemoryGoAlone) {
  constexpr std::size_t kLimit = 256 << 10;
  EXPECT_TRUE(goes_alone(kLimit, false, true));
  EXPECT_FALSE(goes_alone(kLimit - 1, false, true));
  EXPECT_FALSE(goes_alone(kLimit, true, true));
  EXPECT_FALSE(goes_alone(kLimit, false, false));
}

TEST(BucketRules, GradientsOfABlockBeginAtCacheLines) {
  EXPECT_EQ(aligned_elements(16), 16);
  EXPECT_EQ(aligned_elements(17), 32);
  EXPECT_EQ(lay_out_block({1, 16, 17}).elements, 16 + 16 + 32);
  EXPECT_EQ(lay_out_block({17}).elements, 17);
  EXPECT_EQ(lay_out_block({}).elements, 0);
  EXPECT_EQ(lay_out_block({1, 2}).status_at, std::nullopt);
}

TEST(BucketRules, AStatusIsInPaddingOrBehindTheGradients) {
  using enum StatusPlace;
  EXPECT_EQ(lay_out_block({3, 16}, kAnywhere).elements, 32);
  EXPECT_EQ(lay_out_block({3, 16}, kAnywhere).status_at, 3);
  EXPECT_EQ(lay_out_block({3, 5}, kInPadding).status_at, 16 + 5);
  EXPECT_EQ(lay_out_block({16, 32}, kInPadding).status_at, std::nullopt);
  EXPECT_EQ(lay_out_block({16, 32}, kAnywhere).elements, 64);
  EXPECT_EQ(lay_out_block({16, 32}, kAnywhere).status_at, 48);
  EXPECT_EQ(lay_out_block({5}, kInPadding).status_at, std::nullopt);
  EXPECT_EQ(lay_out_block({5}, kAnywhere).status_at, 5);
}

TEST(BucketRules, AStatusNeedsABlockThatKeepsIt) {
  using enum StatusPlace;
  EXPECT_EQ(status_place(false, true, false, 2), kAnywhere);
  EXPECT_EQ(status_place(false, true, false, 3), kInPadding);
  EXPECT_EQ(status_place(true, true, false, 1), kNone);
  EXPECT_EQ(status_place(false, false, false, 1), kNone);
  EXPECT_EQ(status_place(false, true, true, 1), kNone);
}

TEST(BucketRules, SixteenBitsTakeThreeQuartersBetweenHosts) {
  EXPECT_EQ(half_exchange_bytes(100, 1), 200);
  EXPECT_EQ(half_exchange_bytes(100, 2), 300);
  EXPECT_EQ(half_exchange_bytes(100, 8), 300);
}

}  // namespace
}  // namespace sheaf::plan
