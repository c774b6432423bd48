#include "sheaf/base/statistics.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "sheaf/base/error.hpp"

namespace sheaf {
namespace {

const std::vector<double> kValues{4, 1, 3, 2};

TEST(Statistics, OfAFewValues) {
  EXPECT_EQ(minimum(kValues), 1);
  EXPECT_EQ(maximum(kValues), 4);
  EXPECT_EQ(mean(kValues), 2.5);
  EXPECT_EQ(median(kValues), 2.5);
  EXPECT_EQ(median(std::vector<double>{9, 1, 2}), 2);
  // The squared distances from 2.5 add up to 5, and 5 / (4 - 1) is under the
  // root.
  EXPECT_DOUBLE_EQ(standard_deviation(kValues) * standard_deviation(kValues),
                   5.0 / 3.0);
}

TEST(Statistics, PercentilesInterpolate) {
  EXPECT_EQ(percentile(kValues, 0), 1);
  EXPECT_EQ(percentile(kValues, 100), 4);
  EXPECT_EQ(percentile(kValues, 50), 2.5);
  EXPECT_DOUBLE_EQ(percentile(kValues, 90), 3.7);
}

TEST(Statistics, RobustSpreadIgnoresTheWildValue) {
  const std::vector<double> calm{10, 11, 12, 13, 14};
  const std::vector<double> wild{10, 11, 12, 13, 1e9};
  EXPECT_DOUBLE_EQ(robust_spread(calm), 1.4826);
  EXPECT_DOUBLE_EQ(robust_spread(wild), robust_spread(calm));
}

TEST(Statistics, OneValueHasNoSpread) {
  const std::vector<double> one{7};
  EXPECT_EQ(standard_deviation(one), 0);
  EXPECT_EQ(robust_spread(one), 0);
  EXPECT_EQ(percentile(one, 99), 7);
}

TEST(Statistics, TheSummaryAgreesWithItsParts) {
  const Summary summary = summarize(kValues);
  EXPECT_EQ(summary.count, 4u);
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.max, 4);
  EXPECT_EQ(summary.mean, mean(kValues));
  EXPECT_EQ(summary.median, median(kValues));
  EXPECT_EQ(summary.p99, percentile(kValues, 99));
  EXPECT_EQ(summary.standard_deviation, standard_deviation(kValues));
  EXPECT_EQ(summary.robust_spread, robust_spread(kValues));
}

TEST(Statistics, NoValuesAreAnError) {
  for (auto call :
       {minimum, maximum, mean, median, standard_deviation, robust_spread})
    EXPECT_THROW(call({}), UsageError);
  EXPECT_THROW(summarize({}), UsageError);
  EXPECT_THROW(percentile(kValues, 101), UsageError);
  EXPECT_THROW(percentile(kValues, -1), UsageError);
}

}  // namespace
}  // namespace sheaf
