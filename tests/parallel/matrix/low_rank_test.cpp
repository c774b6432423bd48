#include "sheaf/parallel/matrix/low_rank.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <random>

namespace sheaf::parallel {
namespace {

at::Tensor random(std::int64_t rows, std::int64_t columns, int seed) {
  auto generator =
      at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
  return at::randn({rows, columns}, generator, at::TensorOptions(at::kFloat));
}

// Rows of decreasing magnitude, as in a trained network.
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

// The rest is kept for the next call: a step that cannot be taken does not
// change it.
TEST(LowRank, NumbersThatAreNotFiniteReachEveryoneAndKeepTheRest) {
  for (const auto type : {at::kFloat, at::kDouble})
    for (const double bad : {double(NAN), double(INFINITY)}) {
      const Factors given = factors(6, 10, 8, 3, 0);
      const Factors full{given.inputs.to(type), given.deltas.to(type)};
      full.deltas[2][3] = bad;
      Factors rest = factors(2, 10, 8, 4, 0);
      const Factors before = rest;
      EXPECT_TRUE(
          low_rank(full, {.rank = 4}, &rest).deltas.is_same(full.deltas));
      EXPECT_TRUE(rest.inputs.is_same(before.inputs));
      EXPECT_TRUE(rest.deltas.is_same(before.deltas));
      EXPECT_TRUE(
          power_iteration(full, 4, 10, 0, 1).deltas.is_same(full.deltas));
    }
}

// Repeated rows, zeros, fewer rows than the rank, sums of few other rows, on
// either side, of any magnitude.
struct Case {
  std::int64_t rows, in, out, rank, feedback;
  double input_scale, delta_scale;
  int inputs_kind, deltas_kind;
};
Case random_case(std::mt19937& random) {
  const auto pick = [&](auto... all) {
    const double list[] = {double(all)...};
    return list[random() % sizeof...(all)];
  };
  const auto whole = [&](auto... all) {
    return static_cast<std::int64_t>(pick(all...));
  };
  return {whole(1, 2, 5, 12, 16, 24),
          whole(1, 7, 20, 33),
          whole(1, 6, 21, 40),
          whole(1, 3, 4, 8, 30),
          100,
          pick(1, 1, 1e-30, 1e30, 1e-10),
          pick(1, 1, 1e-30, 1e-5),
          static_cast<int>(random() % 6),
          static_cast<int>(random() % 6)};
}

at::Tensor rows_of_kind(std::int64_t rows, std::int64_t width, int kind,
                        std::mt19937& random) {
  const at::Tensor all =
      at::randn({rows, width}, at::detail::createCPUGenerator(random()),
                at::TensorOptions(at::kDouble));
  const auto some = [&](std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random()) % std::min(most, rows);
  };
  const auto chosen = [&](std::int64_t distinct) {
    return all.index_select(
        0,
        at::randint(distinct, {rows}, at::detail::createCPUGenerator(random()),
                    at::TensorOptions(at::kLong)));
  };
  switch (kind) {
    case 1:  // repeated
      return chosen(some(4));
    case 2: {  // zeros among them
      all.narrow(0, 0, some(rows)).zero_();
      return all;
    }
    case 3:  // sums of few rows
      return at::randn({rows, 2}, at::detail::createCPUGenerator(random()),
                       at::TensorOptions(at::kDouble))
          .mm(all.narrow(0, 0, std::min<std::int64_t>(2, rows))
                  .repeat({2, 1})
                  .narrow(0, 0, 2));
    case 4:  // nearly equal
      return all * 1e-6 + all.narrow(0, 0, 1);
    case 5:  // of all magnitudes
      return all * at::exp(at::arange(rows, at::kDouble) * -2.5).unsqueeze(1);
    default:
      return all;
  }
}

// The rounding error is a fraction of that of the product of the factors.
double size_of_terms(const Factors& f) {
  return f.inputs.to(at::kDouble)
      .norm(2, 1)
      .mul(f.deltas.to(at::kDouble).norm(2, 1))
      .sum()
      .item<double>();
}

void expect_best_and_all(const Case& one, at::ScalarType type, int steps,
                         std::mt19937& random) {
  const double eps = type == at::kDouble ? 1e-12 : 4e-6;
  // Smaller products underflow in f32.
  const double least = type == at::kDouble ? 0 : 1e-36;
  Factors rest;
  at::Tensor given = at::zeros({one.out, one.in}, at::kDouble);
  at::Tensor taken = given.clone();
  double terms = 0;
  for (int step = 0; step < steps; ++step) {
    const Factors full{
        (rows_of_kind(one.rows, one.in, one.inputs_kind, random) *
         one.input_scale)
            .to(type),
        (rows_of_kind(one.rows, one.out, one.deltas_kind, random) *
         one.delta_scale)
            .to(type)};
    at::Tensor all = product(full);
    terms += size_of_terms(full);
    if (rest.inputs.defined()) all = all + product(rest);
    given += product(full);
    const Factors few =
        low_rank(full,
                 {.rank = static_cast<int>(one.rank),
                  .feedback_rows = static_cast<int>(one.feedback)},
                 &rest);
    taken += product(few);
    ASSERT_LE(few.inputs.size(0), one.rank);
    if (step % 10 == 0)
      ASSERT_LE(norm_of(all - product(few)),
                1.001 * best_error(all, one.rank) + eps * terms + least);
    ASSERT_LE(norm_of(product(rest)),
              (1 + eps) * norm_of(all) + eps * terms + least);
    ASSERT_LE(norm_of(all - product(few) - product(rest)), eps * terms + least);
    ASSERT_LE(norm_of(given - taken - product(rest)), eps * terms + least);
    const Factors power =
        power_iteration(full, static_cast<int>(one.rank), 30, 0, 1);
    ASSERT_LE(norm_of(product(full) - product(power)),
              (1 + eps) * norm_of(product(full)) + eps * terms + least);
  }
}

TEST(LowRank, AnyRowsGiveTheBestAndKeepTheRest) {
  std::mt19937 random(1);
  for (int i = 0; i < 200 && !testing::Test::HasFatalFailure(); ++i) {
    const Case one = random_case(random);
    for (const auto type : {at::kFloat, at::kDouble}) {
      SCOPED_TRACE(testing::Message()
                   << type << ", " << one.rows << " rows of " << one.in
                   << " and " << one.out << ", rank " << one.rank << ", kinds "
                   << one.inputs_kind << " and " << one.deltas_kind
                   << ", scales " << one.input_scale << " and "
                   << one.delta_scale);
      expect_best_and_all(one, type, 3, random);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// The rest is passed back each time: an amplification above one would show.
TEST(LowRank, HundredsOfStepsWithRepeatedRowsStayExact) {
  std::mt19937 random(2);
  for (const auto type : {at::kFloat, at::kDouble})
    for (const int kind : {1, 4})
      expect_best_and_all({16, 40, 32, 4, 40, 1, 1, kind, kind}, type, 200,
                          random);
}

// If the rank is sufficient, no rest remains, regardless of rounding.
TEST(LowRank, EnoughRankLeavesNoRest) {
  const auto repeated = [](std::int64_t width, int seed) {
    return random(3, width, seed).to(at::kDouble).repeat({5, 1});
  };
  for (int seed = 0; seed < 300; ++seed) {
    // Rows without deltas belong to a forward() whose backward() comes later.
    const at::Tensor zeros = at::zeros({15, 60}, at::kDouble);
    const at::Tensor deltas =
        repeated(3, seed).mm(random(3, 60, seed + 1000).to(at::kDouble));
    const Factors given{
        at::cat({repeated(70, seed + 2000), repeated(70, seed + 3000)}).relu(),
        at::cat({zeros, deltas})};
    Factors rest;
    const Factors best =
        low_rank(given, {.rank = 4, .feedback_rows = 16}, &rest);
    const double allowed = 1e-12 * norm_of(product(given));
    ASSERT_LE(norm_of(product(best) - product(given)), allowed) << seed;
    ASSERT_LE(norm_of(product(rest)), allowed) << seed;
  }
}

TEST(LowRank, AFewRowsOfFeedbackNeverGrow) {
  Factors rest;
  const Factors same{random(1, 64, 1).repeat({4, 1}),
                     random(1, 48, 2).repeat({4, 1})};
  for (int step = 0; step < 300; ++step) {
    const Factors few = low_rank(same, {.rank = 4, .feedback_rows = 16}, &rest);
    ASSERT_LE(norm_of(product(few) - product(same)),
              1e-5 * norm_of(product(same)));
    ASSERT_LE(norm_of(product(rest)), 1e-5 * norm_of(product(same)));
  }
}

// The product overflows f32, although the factors do not.
TEST(LowRank, ProductsOutOfRangeAreReturnedAsTheyCame) {
  const Factors full{random(5, 12, 1) * 1e30, random(5, 14, 2) * 1e30};
  Factors rest = factors(2, 12, 14, 4, 0);
  const Factors before = rest;
  EXPECT_TRUE(low_rank(full, {.rank = 2}, &rest).inputs.is_same(full.inputs));
  EXPECT_TRUE(rest.inputs.is_same(before.inputs));
}

// Normalized rows lose elements below the range of floats. A row whose squared
// length is exactly the smallest moderate one does not need it.
TEST(LowRank, ModerateRowsKeepTheirSmallElements) {
  const float a = 0x1.203af8p-50f, b = 0x1.0af19ap-61f, c = 0x1.8fe63p-73f;
  ASSERT_EQ(double(a) * a + double(b) * b + double(c) * c, 1 / 1e30);
  const Factors full{at::eye(2, 6), at::tensor({a, b, c, 0.f, 0.f, 0.f, 0.f,
                                                0.f, 1e10f, 2e-38f})
                                        .view({2, 5})};
  const Factors few = low_rank(full, {.rank = 1}, nullptr);
  ASSERT_EQ(few.inputs.size(0), 1);
  const at::Tensor got = product(few);
  EXPECT_NEAR(got[3][1].item<double>(), 1e10, 1e4);
  EXPECT_NEAR(got[4][1].item<double>(), 2e-38, 2e-44);
}

// With as many deltas per row as rows, the product itself is reduced. Bases of
// nearly equal rows would lose their difference, which is all that is left.
TEST(LowRank, DifferencesOfAsManyRowsAsColumnsAreNotLost) {
  const float tiny = 0x1p-27f;
  const Factors full{at::tensor({-1.f, tiny, 0.f, 1.f, 0.f, 0.f}).view({2, 3}),
                     at::tensor({1.f, 0.f, 1.f, tiny}).view({2, 2})};
  const at::Tensor want = product(full);
  ASSERT_EQ(norm_of(want), std::sqrt(2) * tiny);
  const Factors both = low_rank(full, {.rank = 2}, nullptr);
  EXPECT_LE(norm_of(product(both) - want), 1e-6 * tiny);
}

// The reference's own check: with its defaults, the original is far off.
TEST(LowRank, BeatsPowerIteration) {
  const Factors full = factors(16, 24, 30, 11, 0.1);
  const double norm = norm_of(product(full));
  const auto error = [&](const Factors& few) {
    return norm_of(product(full) - product(few)) / norm;
  };
  EXPECT_GT(error(power_iteration(full, 9, 1, 0, 1)),
            1.5 * error(low_rank(full, {.rank = 9}, nullptr)));
  EXPECT_LT(error(power_iteration(full, 9, 200, 0, 1)),
            error(power_iteration(full, 9, 1, 0, 1)));
  EXPECT_LT(error(low_rank(full, {.rank = 9}, nullptr)),
            error(power_iteration(full, 9, 10, 0, 1)));
}

}  // namespace
}  // namespace sheaf::parallel
