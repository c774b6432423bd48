#include "sheaf/parallel/data/sparse.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using comm::Group;
using comm::run_threads;

// Rows of a table of four rows with two numbers each; all numbers of a row are
// equal.
at::Tensor sparse_rows(const std::vector<std::int64_t>& rows,
                       const std::vector<double>& values) {
  return torch::sparse_coo_tensor(
      torch::tensor(rows).unsqueeze(0),
      torch::tensor(values, at::kDouble).unsqueeze(1).expand({-1, 2}), {4, 2},
      at::kDouble);
}

void expect_table(const SparseAverage& average,
                  const std::vector<double>& values) {
  ASSERT_TRUE(average.gradient.is_sparse());
  EXPECT_TRUE(average.gradient.is_coalesced());
  EXPECT_TRUE(average.gradient.to_dense().equal(
      torch::tensor(values, at::kDouble).unsqueeze(1).expand({4, 2})))
      << average.gradient;
}

at::Tensor sparse_table() { return torch::zeros({4, 2}, at::kDouble); }

TEST(Sparse, RowsOfAllRanksAreAveraged) {
  run_threads(2, [](const Group& group) {
    const at::Tensor mine =
        group.rank() == 0 ? sparse_rows({0, 3}, {2, 4}) : sparse_rows({3}, {6});
    const auto average = average_sparse_gradient(group, mine, /*is_used=*/true,
                                                 sparse_table(), 2);
    expect_table(average, {1, 0, 0, 5});
    EXPECT_EQ(average.gradient._nnz(), 2);
    EXPECT_EQ(average.users, 2);
    // Each row has an index of 8 bytes and two numbers.
    EXPECT_EQ(average.bytes, (group.rank() == 0 ? 2 : 1) * (8 + 2 * 8));
  });
}

TEST(Sparse, RowsThatRepeatAreSentOnce) {
  run_threads(2, [](const Group& group) {
    const auto average =
        average_sparse_gradient(group, sparse_rows({1, 1, 2, 1}, {1, 2, 3, 4}),
                                /*is_used=*/true, sparse_table(), 2);
    expect_table(average, {0, 7, 3, 0});
    EXPECT_EQ(average.bytes, 2 * (8 + 2 * 8));
  });
}

TEST(Sparse, ARankMayHaveNoGradient) {
  run_threads(3, [](const Group& group) {
    const bool has_one = group.rank() == 1;
    const auto average = average_sparse_gradient(
        group, has_one ? sparse_rows({2}, {6}) : at::Tensor(), has_one,
        sparse_table(), 3);
    expect_table(average, {0, 0, 2, 0});
    EXPECT_EQ(average.users, 1);
    EXPECT_EQ(average.bytes, has_one ? 8 + 2 * 8 : 0);
  });
}

TEST(Sparse, NoRankMayHaveAGradient) {
  run_threads(2, [](const Group& group) {
    const auto average =
        average_sparse_gradient(group, {}, false, sparse_table(), 2);
    expect_table(average, {0, 0, 0, 0});
    EXPECT_EQ(average.users, 0);
  });
}

// The average of an earlier pass is the contribution of a rank that has not
// used the table in this pass.
TEST(Sparse, EarlierAveragesCountButNotAsUsers) {
  run_threads(2, [](const Group& group) {
    const auto average = average_sparse_gradient(
        group, sparse_rows({0}, {group.rank() + 1.0}),
        /*is_used=*/group.rank() == 0, sparse_table(), /*divisor=*/1);
    expect_table(average, {3, 0, 0, 0});
    EXPECT_EQ(average.users, 1);
  });
}

// Values may have several axes.
TEST(Sparse, RowsMayBeMatrices) {
  run_threads(2, [](const Group& group) {
    const at::Tensor table = torch::zeros({3, 2, 2});
    const at::Tensor mine = torch::sparse_coo_tensor(
        torch::tensor({{1}}, at::kLong),
        torch::full({1, 2, 2}, 2.0 * group.rank()), {3, 2, 2});
    const auto average = average_sparse_gradient(group, mine, true, table, 2);
    at::Tensor want = torch::zeros({3, 2, 2});
    want[1].fill_(1);
    EXPECT_TRUE(average.gradient.to_dense().equal(want));
  });
}

TEST(Sparse, ADenseGradientIsAnErrorOnAllRanks) {
  run_threads(3, [](const Group& group) {
    const at::Tensor mine = group.rank() == 1 ? torch::ones({4, 2}, at::kDouble)
                                              : sparse_rows({0}, {1});
    expect_throws<UsageError>(
        [&] { average_sparse_gradient(group, mine, true, sparse_table(), 3); },
        {"dense gradient on rank 1", "declared sparse"});
  });
}

}  // namespace
}  // namespace sheaf::parallel
