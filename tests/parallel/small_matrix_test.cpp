#include "sheaf/parallel/small_matrix.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace sheaf::parallel {
namespace {

using Matrix = std::vector<double>;

std::size_t place(std::int64_t i) { return static_cast<std::size_t>(i); }

// Small whole numbers: their sums are exact in any order.
template <class T>
std::vector<T> whole_numbers(std::int64_t count, std::uint32_t seed) {
  std::vector<T> out;
  for (std::int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    out.push_back(static_cast<T>(static_cast<int>(seed >> 28) - 8));
  }
  return out;
}

template <class T>
std::vector<const T*> rows_of(const std::vector<T>& data, std::int64_t count,
                              std::int64_t width) {
  std::vector<const T*> rows;
  for (std::int64_t i = 0; i < count; ++i)
    rows.push_back(data.data() + i * width);
  return rows;
}

// a (rows x inner) times the transpose of b (columns x inner).
template <class T>
Matrix product(const std::vector<T>& a, const std::vector<T>& b,
               std::int64_t rows, std::int64_t columns, std::int64_t inner) {
  Matrix out;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < inner; ++k)
        sum += double(a[place(i * inner + k)]) * b[place(j * inner + k)];
      out.push_back(sum);
    }
  return out;
}

TEST(SmallMatrix, SumsOverRowsAreExact) {
  for (const MatrixLoops* loops : supported_loops())
    for (const std::int64_t n : {1, 4, 7, 17})
      for (const std::int64_t width : {1, 15, 64, 83, 2048, 4100}) {
        SCOPED_TRACE(testing::Message()
                     << loops->name << ", " << n << " x " << width);
        const auto data = whole_numbers<float>(n * width, 1);
        const auto rows = rows_of(data, n, width);
        Matrix gram(place(n * n));
        loops->gram({rows.data(), n, width}, gram.data());
        EXPECT_EQ(gram, product(data, data, n, n, width));
        const auto wide = whole_numbers<double>(n * width, 2);
        const auto wide_rows = rows_of(wide, n, width);
        loops->gram_double({wide_rows.data(), n, width}, gram.data());
        EXPECT_EQ(gram, product(wide, wide, n, n, width));
      }
}

TEST(SmallMatrix, CombinationsOfRowsAreExact) {
  for (const MatrixLoops* loops : supported_loops())
    for (const std::int64_t count : {0, 1, 4, 9})
      for (const std::int64_t width : {1, 15, 64, 83, 300}) {
        SCOPED_TRACE(testing::Message()
                     << loops->name << ", " << count << " x " << width);
        constexpr std::int64_t kRows = 6;
        const auto transposed = whole_numbers<float>(kRows * width, 3);
        std::vector<float> data;
        for (std::int64_t i = 0; i < kRows; ++i)
          for (std::int64_t c = 0; c < width; ++c)
            data.push_back(transposed[place(c * kRows + i)]);
        const auto by = whole_numbers<float>(count * kRows, 4);
        const auto rows = rows_of(data, kRows, width);
        std::vector<float> out(place(count * width));
        loops->combine({rows.data(), kRows, width}, by.data(), count,
                       out.data());
        EXPECT_EQ(Matrix(out.begin(), out.end()),
                  product(by, transposed, count, width, kRows));
      }
}

struct Problem {
  std::int64_t n;
  std::int64_t block;
  Matrix a;
  Matrix b;
  Matrix work;

  Problem(std::int64_t rows, std::int64_t columns)
      : n(rows),
        block(columns),
        a(place(n * n)),
        b(a),
        work(place(4 * n * block + 3 * block * block + block)) {}
  PairsProblem view(std::int64_t wanted) {
    return {n, block, wanted, a.data(), b.data(), work.data()};
  }
};

// The values of a diagonal product are known.
Problem diagonal(std::int64_t n, std::int64_t block) {
  Problem problem(n, block);
  for (std::int64_t i = 0; i < n; ++i) {
    problem.a[place(i * (n + 1))] = std::pow(0.7, double(i));
    problem.b[place(i * (n + 1))] = double(i + 1);
  }
  return problem;
}

double entry(const double* x, const double* y, const Problem& problem,
             std::int64_t p, std::int64_t q) {
  double sum = 0;
  for (std::int64_t i = 0; i < problem.n; ++i)
    sum += x[i * problem.block + p] * y[i * problem.block + q];
  return sum;
}

TEST(SmallMatrix, FindsTheLargestPairs) {
  for (const MatrixLoops* loops : supported_loops()) {
    Problem problem = diagonal(20, 8);
    const Pairs found = loops->find_largest(problem.view(3));
    Matrix values;
    double total = 0;
    for (int i = 0; i < 20; ++i) {
      values.push_back(std::pow(0.7, i) * (i + 1));
      total += values.back();
    }
    std::sort(values.rbegin(), values.rend());
    EXPECT_NEAR(found.total, total, 1e-12 * total);
    // An iteration that gains 2e-4 of the rest is the last.
    for (std::int64_t c = 0; c < 3; ++c)
      EXPECT_NEAR(found.values[c], values[place(c)], 2e-3) << loops->name;
    for (std::int64_t p = 0; p < 3; ++p)
      for (std::int64_t q = 0; q < 3; ++q)
        EXPECT_NEAR(entry(found.x, found.ax, problem, p, q), p == q, 1e-9);
  }
}

TEST(SmallMatrix, TheRestIsAllThatIsLeft) {
  for (const MatrixLoops* loops : supported_loops()) {
    Problem problem = diagonal(12, 8);
    const PairsProblem pairs = problem.view(4);
    const Pairs found = loops->find_largest(pairs);
    Problem more(12, 16);  // eight are left
    const Pairs rest =
        loops->find_rest({&pairs, &found, 4, more.block, more.work.data()});
    std::int64_t count = 0;
    for (std::int64_t c = 0; c < more.block; ++c) count += rest.values[c] > 0;
    EXPECT_EQ(count, 8) << loops->name;
    // x x^T A over both is one.
    for (std::int64_t i = 0; i < 12; ++i)
      for (std::int64_t j = 0; j < 12; ++j) {
        double sum = 0;
        for (std::int64_t c = 0; c < 4; ++c)
          sum += found.x[i * 8 + c] * found.ax[j * 8 + c];
        for (std::int64_t c = 0; c < more.block; ++c)
          sum += rest.x[i * 16 + c] * rest.ax[j * 16 + c];
        EXPECT_NEAR(sum, i == j, 1e-6);
      }
  }
}

TEST(SmallMatrix, NothingAndNumbersThatAreNone) {
  for (const MatrixLoops* loops : supported_loops()) {
    Problem problem(5, 8);
    const Pairs none = loops->find_largest(problem.view(4));
    EXPECT_EQ(none.total, 0);
    EXPECT_EQ(none.values[0], 0);
    problem.a[3] = std::nan("");
    EXPECT_FALSE(std::isfinite(loops->find_largest(problem.view(4)).total));
  }
}

}  // namespace
}  // namespace sheaf::parallel
