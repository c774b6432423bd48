#include "sheaf/parallel/dad/dad_settings.hpp"

#include <gtest/gtest.h>

#include <map>

#include "sheaf/base/error.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

void expect_refused_option(const DadOptions& options, const std::string& text) {
  expect_throws<UsageError>([&] { check(options); }, {text});
}

TEST(DadSettings, WhatCannotBeIsRefused) {
  check(DadOptions{});
  expect_refused_option({.rank = 0}, "rank 0 must be at least 1");
  expect_refused_option({.tolerance = 1}, "tolerance 1 must be at least 0");
  expect_refused_option({.tolerance = -0.5}, "tolerance -0.5 must be");
  expect_refused_option({.feedback_rows = -1}, "must not be negative");
  expect_refused_option({.power_iterations = -1}, "must not be negative");
  expect_refused_option({.is_two_way = true}, "set where = star as well");
  expect_refused_option({.wire = at::kInt}, "as f16, as bf16 or unchanged");
  expect_refused_option({.bucket_mb = 0}, "must be above 0");
  check(DadOptions{.where = Where::kStar, .is_two_way = true});
  check(DadOptions{.rank = 1, .tolerance = 0.5, .wire = at::kBFloat16});
}

// The options whose values differ from the defaults.
std::map<std::string, std::string> changed_options(const DadOptions& options) {
  const auto before = named(DadOptions{}), now = named(options);
  EXPECT_EQ(now.size(), before.size());
  std::map<std::string, std::string> changed;
  for (std::size_t i = 0; i < now.size(); ++i) {
    EXPECT_EQ(now[i].first, before[i].first);
    if (now[i].second != before[i].second)
      changed[now[i].first] = now[i].second;
  }
  return changed;
}

TEST(DadSettings, WhatRanksMustAgreeOnIsNamed) {
  using Map = std::map<std::string, std::string>;
  const auto expect_only = [](const DadOptions& options,
                              const std::string& name,
                              const std::string& value) {
    EXPECT_EQ(changed_options(options), (Map{{name, value}}));
  };
  expect_only({.mode = DadMode::kEdad}, "mode", "edad");
  expect_only({.mode = DadMode::kRankDad}, "mode", "rank-dad");
  expect_only({.mode = DadMode::kAuto}, "mode", "auto");
  expect_only({.rank = 7}, "rank", "7");
  expect_only({.tolerance = 0.25}, "tolerance", "0.25");
  expect_only({.feedback_rows = 3}, "feedback_rows", "3");
  expect_only({.power_iterations = 2}, "power_iterations", "2");
  expect_only({.allows_low_rank = true}, "allows_low_rank", "1");
  expect_only({.where = Where::kStar}, "where", "star");
  expect_only({.is_two_way = true}, "is_two_way", "1");
  expect_only({.wire = at::kHalf}, "wire", "Half");
  expect_only({.skips_zeros = false}, "skips_zeros", "0");
  expect_only({.first_layer_gradient = true}, "first_layer_gradient", "1");
  expect_only({.routes = {{"b", Route::kDad}, {"a", Route::kGradient}}},
              "routes", "a: gradient, b: dad");
  expect_only({.planned = {{"a", Route::kRankDad}}}, "planned", "a: rank-dad");
  expect_only({.link = LinkModel{}}, "link", "given");
  expect_only({.has_trials = true}, "has_trials", "1");
  expect_only({.average = Average::kRanks}, "average", "ranks");
  expect_only({.parcel_bytes = 5}, "parcel_bytes", "5");
  expect_only({.bucket_mb = 2}, "bucket_mb", "2");
  expect_only({.static_graph = true}, "static_graph", "1");
}

// Ranks may overlap their exchange or not, and may be on any device.
TEST(DadSettings, WhatRanksNeedNotAgreeOnIsNotNamed) {
  EXPECT_TRUE(changed_options({.overlap = Overlap::kOff}).empty());
  EXPECT_TRUE(changed_options({.device = at::Device(at::kMeta)}).empty());
}

// Half of the elements are assumed to be zero.
TEST(DadSettings, ZerosAreSkippedWhereThatIsFaster) {
  LinkModel link{.gather_bytes_per_s = 1e9, .skip_bytes_per_s = 2e9};
  EXPECT_FALSE(skips_zeros(DadOptions{}, link));
  link.skip_bytes_per_s = 2.1e9;
  EXPECT_TRUE(skips_zeros(DadOptions{}, link));
  EXPECT_FALSE(skips_zeros(DadOptions{.skips_zeros = false}, link));
  link.skip_bytes_per_s = 1;
  EXPECT_TRUE(skips_zeros(DadOptions{.skips_zeros = true}, link));
}

TEST(DadSettings, WishesAreThoseOfTheOptions) {
  const DadOptions options{.mode = DadMode::kAuto,
                           .rank = 7,
                           .feedback_rows = 9,
                           .allows_low_rank = true,
                           .first_layer_gradient = true,
                           .routes = {{"a", Route::kDad}},
                           .planned = {{"b", Route::kEdad}},
                           .parcel_bytes = 1000};
  for (const bool skips : {false, true}) {
    const RouteSettings settings = route_settings(options, skips);
    EXPECT_EQ(settings.mode, DadMode::kAuto);
    EXPECT_EQ(settings.rank, 7);
    EXPECT_EQ(settings.feedback_rows, 9);
    EXPECT_TRUE(settings.allows_low_rank);
    EXPECT_EQ(settings.skips_zeros, skips);
    EXPECT_TRUE(settings.first_layer_gradient);
    EXPECT_EQ(settings.by_name, options.routes);
    EXPECT_EQ(settings.planned, options.planned);
    EXPECT_EQ(settings.parcel_bytes, 1000);
  }
}

TEST(DadSettings, FactorsAreExchangedAsTheOptionsSpecify) {
  const FactorOptions options = factor_options({.rank = 7,
                                                .tolerance = 0.5,
                                                .feedback_rows = 9,
                                                .power_iterations = 3,
                                                .where = Where::kStar,
                                                .is_two_way = true,
                                                .wire = at::kBFloat16,
                                                .overlap = Overlap::kOn},
                                               /*skips_zeros=*/true);
  EXPECT_EQ(options.overlap, Overlap::kOn);
  EXPECT_EQ(options.trace, nullptr);
  const auto& [where, wire, low_rank, is_two_way] = options.exchange;
  EXPECT_EQ(where, Where::kStar);
  EXPECT_EQ(wire.type, at::kBFloat16);
  EXPECT_TRUE(wire.skips_zeros);
  EXPECT_EQ(low_rank.rank, 7);
  EXPECT_EQ(low_rank.tolerance, 0.5);
  EXPECT_EQ(low_rank.feedback_rows, 9);
  EXPECT_EQ(low_rank.power_iterations, 3);
  EXPECT_TRUE(is_two_way);
  EXPECT_FALSE(factor_options({}, false).exchange.wire.skips_zeros);
}

TEST(DadSettings, TheFirstBucketIsNoLargerThanTheOthers) {
  DadOptions options{.bucket_mb = 2, .first_bucket_mb = 5};
  EXPECT_EQ(reducer_options(options).caps.first_bytes, 2u << 20);
  EXPECT_EQ(reducer_options(options).caps.bytes, 2u << 20);
  options.first_bucket_mb = 1;
  EXPECT_EQ(reducer_options(options).caps.first_bytes, 1u << 20);
}

}  // namespace
}  // namespace sheaf::parallel
