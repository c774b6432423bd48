#include "sheaf/parallel/low_rank.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

namespace sheaf::parallel {
namespace {

at::Tensor random(std::int64_t rows, std::int64_t columns, int seed) {
  auto generator =
      at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
  return at::randn({rows, columns}, generator, at::TensorOptions(at::kFloat));
}

// Rows that fade, as those of a trained network do.
Factors factors(std::int64_t rows, std::int64_t in, std::int64_t out, int seed,
                double fade) {
  const at::Tensor scale =
      at::exp(at::arange(rows, at::kFloat) * -fade).unsqueeze(1);
  return {random(rows, in, seed), random(rows, out, seed + 1) * scale};
}

at::Tensor product(const Factors& f) {
  return f.deltas.to(at::kDouble).t().mm(f.inputs.to(at::kDouble));
}

double norm_of(const at::Tensor& tensor) {
  return tensor.norm().item<double>();
}

double best_error(const at::Tensor& matrix, std::int64_t rank) {
  const at::Tensor values = at::linalg_svdvals(matrix);
  return norm_of(values.slice(0, rank));
}

TEST(LowRank, IsAsGoodAsTheTruncatedSvd) {
  for (const double fade : {0.0, 0.1, 0.5})
    for (const int rank : {1, 2, 4, 8}) {
      const Factors full = factors(24, 30, 40, 7, fade);
      const Factors few = low_rank(full, {.rank = rank}, nullptr);
      ASSERT_EQ(few.inputs.size(0), rank);
      const double error = norm_of(product(full) - product(few));
      const double best = best_error(product(full), rank);
      EXPECT_LE(error, 1.0001 * best) << "fade " << fade << ", rank " << rank;
    }
}

TEST(LowRank, TakesWhatTheToleranceNeeds) {
  const Factors full = factors(24, 30, 40, 7, 0.5);
  const double norm = norm_of(product(full));
  for (const double tolerance : {0.5, 0.1, 0.01}) {
    const Factors few =
        low_rank(full, {.rank = 24, .tolerance = tolerance}, nullptr);
    const std::int64_t rank = few.inputs.size(0);
    EXPECT_LT(rank, 24);
    EXPECT_LE(best_error(product(full), rank), 1.0001 * tolerance * norm);
    EXPECT_GT(best_error(product(full), rank - 1), 0.9999 * tolerance * norm);
  }
}

TEST(LowRank, WhatIsLeftOutComesTheNextTime) {
  Factors rest;
  at::Tensor given = at::zeros({40, 30}, at::kDouble);
  at::Tensor taken = given.clone();
  for (int step = 0; step < 10; ++step) {
    const Factors full = factors(12, 30, 40, 100 + 2 * step, 0.2);
    const Factors few = low_rank(full, {.rank = 3, .feedback_rows = 40}, &rest);
    given += product(full);
    taken += product(few);
    EXPECT_LE(norm_of(given - taken - product(rest)), 1e-4 * norm_of(given));
  }
  EXPECT_GT(norm_of(product(rest)), 0);
}

TEST(LowRank, RowsThatDependOnEachOtherAndNone) {
  Factors full = factors(6, 10, 8, 3, 0);
  full.inputs = full.inputs.narrow(0, 0, 1).repeat({6, 1});
  const Factors one = low_rank(full, {.rank = 4}, nullptr);
  EXPECT_EQ(one.inputs.size(0), 1);
  EXPECT_LE(norm_of(product(full) - product(one)),
            1e-5 * norm_of(product(full)));
  full.deltas.zero_();
  EXPECT_EQ(low_rank(full, {.rank = 4}, nullptr).inputs.size(0), 0);
  const Factors none{at::zeros({0, 10}), at::zeros({0, 8})};
  EXPECT_EQ(low_rank(none, {.rank = 4}, nullptr).inputs.size(0), 0);
}

TEST(LowRank, KeepsNearlyTheBestOfWhatIsLeftOut) {
  for (const double fade : {0.0, 0.1, 0.3}) {
    const Factors full = factors(40, 60, 80, 21, fade);
    Factors rest;
    const Factors few = low_rank(full, {.rank = 4, .feedback_rows = 12}, &rest);
    ASSERT_EQ(rest.inputs.size(0), 12);
    const at::Tensor left = product(full) - product(few);
    EXPECT_LE(norm_of(left - product(rest)), 1.15 * best_error(left, 12))
        << "fade " << fade;
  }
}

TEST(LowRank, RowsOfZerosAndDoubles) {
  Factors full = factors(20, 30, 40, 5, 0.3);
  full.inputs.narrow(0, 0, 12).zero_();
  for (const auto type : {at::kFloat, at::kDouble}) {
    const Factors given{full.inputs.to(type), full.deltas.to(type)};
    Factors rest;
    const Factors few = low_rank(given, {.rank = 3}, &rest);
    EXPECT_EQ(few.inputs.scalar_type(), type);
    const at::Tensor left = product(full) - product(few);
    EXPECT_LE(norm_of(left), 1.0001 * best_error(product(full), 3));
    EXPECT_LE(norm_of(left - product(rest)), 1e-4 * norm_of(left));
    EXPECT_NEAR(norm_of(few.inputs[0]), 1, 1e-5);
  }
}

TEST(LowRank, NumbersThatAreNoneReachEveryone) {
  const Factors full = factors(6, 10, 8, 3, 0);
  full.deltas[2][3] = std::nan("");
  Factors rest = factors(2, 10, 8, 4, 0);
  EXPECT_TRUE(low_rank(full, {.rank = 4}, &rest).deltas.is_same(full.deltas));
  EXPECT_FALSE(rest.inputs.defined());
}

// The reference's own check: at its defaults the original is far off.
TEST(LowRank, BeatsPowerIteration) {
  const Factors full = factors(16, 24, 30, 11, 0.1);
  const double norm = norm_of(product(full));
  const auto error = [&](const Factors& few) {
    return norm_of(product(full) - product(few)) / norm;
  };
  EXPECT_GT(error(power_iteration(full, 9, 1, 0, 1)), 0.5);
  EXPECT_LT(error(power_iteration(full, 9, 200, 0, 1)), 0.5);
  EXPECT_LT(error(low_rank(full, {.rank = 9}, nullptr)),
            error(power_iteration(full, 9, 10, 0, 1)));
}

}  // namespace
}  // namespace sheaf::parallel
