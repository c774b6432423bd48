#include "sheaf/parallel/matrix/portable_product.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace sheaf::parallel {
namespace {

at::Tensor any(std::int64_t rows, std::int64_t columns, at::ScalarType type) {
  auto generator = at::detail::createCPUGenerator(5);
  return at::randn({rows, columns}, generator, at::TensorOptions(at::kDouble))
      .to(type);
}

// Adds one term after the other.
template <class T>
at::Tensor by_hand(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor out =
      at::zeros({a.size(0), b.size(1)}, c10::CppTypeToScalarType<T>::value);
  const auto x = a.accessor<T, 2>(), y = b.accessor<T, 2>();
  auto sum = out.accessor<T, 2>();
  for (std::int64_t i = 0; i < a.size(0); ++i)
    for (std::int64_t k = 0; k < a.size(1); ++k)
      for (std::int64_t j = 0; j < b.size(1); ++j)
        sum[i][j] += x[i][k] * y[k][j];
  return out;
}

TEST(PortableProduct, IsTheSumInOrderWithAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    for (const std::int64_t inner : {0, 1, 5, 64, 700})
      for (const std::int64_t width : {0, 1, 17, 130}) {
        const auto a = any(43, inner, at::kFloat);
        const auto b = any(inner, width, at::kFloat);
        EXPECT_TRUE(portable_product(a, b).equal(by_hand<float>(a, b)));
        EXPECT_TRUE(portable_product(a.t().contiguous().t(), b.to(at::kFloat))
                        .equal(by_hand<float>(a, b)));
        const auto c = any(43, inner, at::kDouble);
        const auto d = any(inner, width, at::kDouble);
        EXPECT_TRUE(portable_product(c, d).equal(by_hand<double>(c, d)));
        const auto e = a.to(at::kBFloat16), f = b.to(at::kBFloat16);
        EXPECT_TRUE(portable_product(e, f).equal(
            by_hand<float>(e.to(at::kFloat), f.to(at::kFloat))
                .to(at::kBFloat16)));
      }
  }
  at::set_num_threads(1);
}

// index_put_() adds rows in the order of its threads.
TEST(PortableProduct, RowsAreAddedInOrder) {
  const at::Tensor rows = any(20000, 24, at::kFloat);
  const at::Tensor indices = at::arange(20000, at::kLong).remainder(7);
  at::Tensor want = at::zeros({7, 24});
  for (std::int64_t i = 0; i < 20000; ++i) want[i % 7] += rows[i];
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    const at::Tensor table = at::zeros({7, 24});
    add_rows_in_order(table, indices, rows);
    EXPECT_TRUE(table.equal(want));
    const at::Tensor turned = at::zeros({24, 7});
    add_rows_in_order(turned.t(), indices, rows);
    EXPECT_TRUE(turned.t().equal(want));
  }
  at::set_num_threads(1);
}

TEST(PortableProduct, ColumnsBecomeOrthonormal) {
  const auto expect_orthonormal = [](const at::Tensor& x) {
    EXPECT_LE((x.t().mm(x) - at::eye(x.size(1), at::kDouble))
                  .abs()
                  .max()
                  .item<double>(),
              1e-14);
  };
  for (const double size : {1e-100, 1.0, 1e100}) {
    const at::Tensor given = any(30, 4, at::kDouble) * size;
    const at::Tensor x = given.clone();
    orthonormalize_columns(x);
    expect_orthonormal(x);
    EXPECT_LE((given - x.mm(x.t().mm(given))).norm().item<double>(),
              1e-13 * given.norm().item<double>());
  }
  at::Tensor same = any(30, 1, at::kDouble).repeat({1, 4});
  orthonormalize_columns(same);
  expect_orthonormal(same);
  const at::Tensor zeros = at::zeros({30, 4}, at::kDouble);
  orthonormalize_columns(zeros);
  expect_orthonormal(zeros);
  const at::Tensor square = any(4, 4, at::kDouble);
  square.select(1, 2).zero_();
  orthonormalize_columns(square);
  expect_orthonormal(square);
}

}  // namespace
}  // namespace sheaf::parallel
