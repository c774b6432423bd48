#include "sheaf/parallel/matrix/small_matrix.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace sheaf::parallel {
namespace {

using Matrix = std::vector<double>;

std::size_t place(std::int64_t i) { return static_cast<std::size_t>(i); }

// Small integers, whose sums are exact in any order.
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
std::vector<T> any_numbers(std::int64_t count, std::uint32_t seed) {
  std::vector<T> out;
  for (std::int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    out.push_back(static_cast<T>(seed) / T(1u << 30) - T(2));
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
        std::vector<float> out(place((count + 1) * width), 99);
        loops->combine({rows.data(), kRows, width}, by.data(), count,
                       out.data());
        const auto end = out.begin() + count * width;
        EXPECT_EQ(Matrix(out.begin(), end),
                  product(by, transposed, count, width, kRows));
        EXPECT_EQ(std::count(end, out.end(), 99), width) << "memory behind it";
      }
}

// Compares the widest and the baseline loops: sums over rows have the same
// order.
TEST(SmallMatrix, CombinationsHaveTheSameBitsWithAllInstructionSets) {
  constexpr std::int64_t kRows = 37, kCount = 9;
  for (const std::int64_t width : {1, 3, 8, 63, 130}) {
    const auto data = any_numbers<float>(kRows * width, 5);
    const auto by = any_numbers<float>(kCount * kRows, 6);
    const auto wide = any_numbers<double>(kRows * width, 7);
    const auto wide_by = any_numbers<double>(kCount * kRows, 8);
    const auto rows = rows_of(data, kRows, width);
    const auto wide_rows = rows_of(wide, kRows, width);
    std::vector<std::vector<float>> floats;
    std::vector<std::vector<double>> doubles;
    for (const MatrixLoops* loops : supported_loops()) {
      loops->combine({rows.data(), kRows, width}, by.data(), kCount,
                     floats.emplace_back(place(kCount * width)).data());
      loops->combine_double({wide_rows.data(), kRows, width}, wide_by.data(),
                            kCount,
                            doubles.emplace_back(place(kCount * width)).data());
      EXPECT_EQ(floats.back(), floats.front()) << loops->name;
      EXPECT_EQ(doubles.back(), doubles.front()) << loops->name;
    }
  }
}

// C = L^T R with the diagonal values (i + 1) 0.7^i.
struct Problem {
  std::int64_t n;
  Matrix l, r;
  double total = 0;

  explicit Problem(std::int64_t size)
      : n(size), l(place(n * n)), r(place(n * n)) {
    for (std::int64_t i = 0; i < n; ++i) {
      l[place(i * (n + 1))] = std::pow(0.7, double(i));
      r[place(i * (n + 1))] = double(i + 1);
      total += std::pow(value(i), 2);
    }
  }
  static double value(std::int64_t i) { return std::pow(0.7, i) * (i + 1); }
  CoreMatrix core() const { return {n, n, n, l.data(), r.data(), total}; }
};

Matrix work_for(std::int64_t n, std::int64_t block) {
  return Matrix(place(work_size(n, block)));
}

double entry(const double* x, const double* y, std::int64_t rows,
             std::int64_t block, std::int64_t p, std::int64_t q) {
  double sum = 0;
  for (std::int64_t i = 0; i < rows; ++i)
    sum += x[i * block + p] * y[i * block + q];
  return sum;
}

TEST(SmallMatrix, FindsTheLargestPairs) {
  for (const MatrixLoops* loops : supported_loops()) {
    const Problem problem(20);
    Matrix work = work_for(20, 8);
    const Pairs found =
        loops->find_largest({problem.core(), 8, 3, work.data()});
    Matrix values;
    for (int i = 0; i < 20; ++i) values.push_back(Problem::value(i));
    std::sort(values.rbegin(), values.rend());
    // The iteration stops when the gain is below 2e-4 of the rest.
    for (std::int64_t c = 0; c < 3; ++c)
      EXPECT_NEAR(found.values[c], std::pow(values[place(c)], 2), 2e-3)
          << loops->name;
    for (std::int64_t p = 0; p < 3; ++p)
      for (std::int64_t q = 0; q < 3; ++q)
        EXPECT_NEAR(entry(found.u, found.u, 20, 8, p, q), p == q, 1e-12);
  }
}

TEST(SmallMatrix, TheRestIsAllThatIsLeft) {
  for (const MatrixLoops* loops : supported_loops()) {
    const Problem problem(12);
    Matrix work = work_for(12, 8);
    const Pairs found =
        loops->find_largest({problem.core(), 8, 4, work.data()});
    Matrix more = work_for(12, 16);  // eight are left
    const Pairs rest =
        loops->find_rest({problem.core(), found.u, 8, 4, 16, more.data()});
    std::int64_t count = 0;
    for (std::int64_t c = 0; c < 16; ++c) count += rest.values[c] > 0;
    EXPECT_EQ(count, 8) << loops->name;
    // The sum of u z^T over both is C.
    for (std::int64_t i = 0; i < 12; ++i)
      for (std::int64_t j = 0; j < 12; ++j) {
        double sum = 0;
        for (std::int64_t c = 0; c < 4; ++c)
          sum += found.u[i * 8 + c] * found.z[j * 8 + c];
        for (std::int64_t c = 0; c < 16; ++c)
          sum += rest.u[i * 16 + c] * rest.z[j * 16 + c];
        EXPECT_NEAR(sum, i == j ? Problem::value(i) : 0, 1e-13);
      }
  }
}

TEST(SmallMatrix, NothingHasNoPairs) {
  for (const MatrixLoops* loops : supported_loops())
    for (const std::int64_t block : {8, 16}) {
      const Matrix zeros(place(12 * 12));
      Matrix work = work_for(12, block);
      const Pairs none = loops->find_largest(
          {{12, 12, 12, zeros.data(), zeros.data(), 0}, block, 4, work.data()});
      for (std::int64_t c = 0; c < block; ++c) EXPECT_EQ(none.values[c], 0);
    }
}

}  // namespace
}  // namespace sheaf::parallel
