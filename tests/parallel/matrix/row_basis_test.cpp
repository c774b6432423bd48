#include "sheaf/parallel/matrix/row_basis.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

namespace sheaf::parallel {
namespace {

template <class T>
class RowBasisTest : public testing::Test {
 protected:
  static constexpr auto kType = c10::CppTypeToScalarType<T>::value;
  // Error of a few roundings.
  static constexpr double kRounding = std::is_same_v<T, float> ? 1e-5 : 1e-12;

  static at::Tensor matrix(std::initializer_list<std::vector<double>> rows) {
    std::vector<at::Tensor> list;
    for (const auto& row : rows) list.push_back(at::tensor(row, at::kDouble));
    return at::stack(list).to(kType);
  }
  static ThinRows<T> thin(const at::Tensor& given) {
    ThinRows<T> rows(given.size(1));
    rows.add(given);
    return rows;
  }
  static RowBasis<T> basis(const ThinRows<T>& rows) {
    return RowBasis<T>(rows, rows.gram());
  }
  static std::vector<double> identity(std::int64_t size) {
    std::vector<double> ones(static_cast<std::size_t>(size * size));
    for (std::int64_t i = 0; i < size; ++i)
      ones[static_cast<std::size_t>(i * (size + 1))] = 1;
    return ones;
  }
  static void expect_near(const at::Tensor& got, const at::Tensor& want,
                          double size) {
    EXPECT_LE((got - want).abs().max().template item<double>(),
              kRounding * size)
        << got << want;
  }
  // The rows are length * L * (orthonormal rows).
  static void expect_decomposed(const at::Tensor& given, std::int64_t size) {
    const ThinRows<T> rows = thin(given);
    const RowBasis<T> found = basis(rows);
    ASSERT_EQ(found.size(), size);
    const at::Tensor q =
        found.combined(identity(size), size, 0).to(at::kDouble);
    expect_near(q.mm(q.t()), at::eye(size, at::kDouble), 1);
    const at::Tensor l =
        at::tensor(found.l(), at::kDouble).view({given.size(0), size});
    const at::Tensor lengths =
        at::tensor(found.lengths(), at::kDouble).unsqueeze(1);
    expect_near((l * lengths).mm(q), given.to(at::kDouble),
                given.abs().max().template item<double>());
  }
};

using RowTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(RowBasisTest, RowTypes);

TYPED_TEST(RowBasisTest, RowsOfSeveralTensorsAreOneMatrix) {
  using T = TypeParam;
  ThinRows<T> rows(3);
  EXPECT_EQ(rows.count(), 0);
  rows.add(this->matrix({{1, 2, 3}}));
  // Of another type and order in memory.
  rows.add(at::tensor({4, 7, 5, 8, 6, 9}, at::kInt).view({3, 2}).t());
  EXPECT_EQ(rows.count(), 3);
  EXPECT_EQ(rows.width(), 3);
  EXPECT_EQ(rows.row(2)[0], 7);
  EXPECT_TRUE(
      rows.as_matrix().equal(this->matrix({{1, 2, 3}, {4, 5, 6}, {7, 8, 9}})));
  EXPECT_TRUE(rows.chosen({2, 0, 2}).as_matrix().equal(
      this->matrix({{7, 8, 9}, {1, 2, 3}, {7, 8, 9}})));
}

TYPED_TEST(RowBasisTest, ProductsOfRowsAreExactForIntegers) {
  const auto rows = this->thin(this->matrix({{1, 2}, {3, -4}, {0, 5}}));
  EXPECT_EQ(rows.gram(),
            (std::vector<double>{5, -5, 10, -5, 25, -20, 10, -20, 25}));
  EXPECT_TRUE(rows.combined({1, 1, 0, 2, 0, -1}, 2)
                  .equal(this->matrix({{4, -2}, {2, -1}})));
}

// Divided by powers of two, which is exact.
TYPED_TEST(RowBasisTest, RowsAreNormalizedExactly) {
  auto rows =
      this->thin(this->matrix({{3, -5}, {0, 0}, {0.25, 0.1875}, {-1, 0}}));
  std::vector<int> exponents;
  EXPECT_TRUE(rows.normalize(exponents));
  EXPECT_EQ(exponents, (std::vector<int>{2, 0, -2, 0}));
  EXPECT_TRUE(rows.as_matrix().equal(
      this->matrix({{0.75, -1.25}, {0, 0}, {1, 0.75}, {-1, 0}})));
}

TYPED_TEST(RowBasisTest, RowsThatAreNotFiniteAreNotNormalized) {
  for (const double bad : {double(NAN), double(INFINITY)}) {
    auto rows = this->thin(this->matrix({{4, 4}, {1, bad}}));
    std::vector<int> exponents;
    EXPECT_FALSE(rows.normalize(exponents));
    EXPECT_EQ(rows.row(0)[0], 4) << "unchanged";
  }
}

TYPED_TEST(RowBasisTest, RowsAreCombinationsOfOrthonormalRows) {
  this->expect_decomposed(this->matrix({{3, 0, 4, 0}}), 1);
  this->expect_decomposed(
      this->matrix({{1, 2, 3, 4}, {-2, 1, 0, 5}, {100, 7, -3, 1}}), 3);
}

TYPED_TEST(RowBasisTest, LengthsAreThoseOfTheRows) {
  const auto found =
      this->basis(this->thin(this->matrix({{3, 4}, {0, 0}, {0, -2}})));
  EXPECT_EQ(found.lengths(), (std::vector<double>{5, 0, 2}));
}

TYPED_TEST(RowBasisTest, CombinationsMayHaveAnExponent) {
  const auto found =
      this->basis(this->thin(this->matrix({{1, 2, 3}, {-2, 1, 5}})));
  const std::vector<double> by{0.5, -2, 3, 1};
  EXPECT_TRUE(found.combined(by, 2, 3).equal(found.combined(by, 2, 0) * 8));
}

// Floats use as many rows as there are directions.
TEST(RowBasis, OfFloatsHasOneRowPerDirection) {
  using Floats = RowBasis<float>;
  const auto size_of_rows = [](const at::Tensor& given) {
    ThinRows<float> rows(given.size(1));
    rows.add(given);
    return Floats(rows, rows.gram()).size();
  };
  const at::Tensor some = at::tensor({1.f, 2.f, 3.f, 0.f, 1.f, -1.f});
  const at::Tensor two = some.view({2, 3});
  EXPECT_EQ(size_of_rows(two), 2);
  EXPECT_EQ(size_of_rows(two.repeat({3, 1})), 2);
  EXPECT_EQ(size_of_rows(at::cat({two, two.sum(0, true)})), 2);
  EXPECT_EQ(size_of_rows(at::cat({two, at::zeros({2, 3})})), 2);
  EXPECT_EQ(size_of_rows(at::zeros({2, 3})), 0);
}

}  // namespace
}  // namespace sheaf::parallel
