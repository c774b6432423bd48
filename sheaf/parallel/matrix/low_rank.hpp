#pragma once
// Best low-rank factors: for a product D^T A with n rows, the factors with r
// rows whose product is closest to it.

#include <torch/types.h>

#include <cstdint>

#include "sheaf/plan/format/parcel_rules.hpp"

namespace sheaf::parallel {

struct LowRankOptions {
  int rank = 4;  // maximum number of rows
  // Uses fewer rows if the rest has at most this fraction of the product's
  // norm.
  double tolerance = 0;
  // The rest is added in the next call, with up to this number of rows; 0: it
  // is dropped.
  int feedback_rows = plan::kFeedbackRows;
  // For comparisons: sequential power iteration with deflation, as in
  // dad_torch, with this number of iterations per row. 0: exact factors.
  int power_iterations = 0;
};

struct Factors {
  at::Tensor inputs;  // r x in
  at::Tensor deltas;  // r x out
};

// With D = L Q and inputs = M P, where Q and P have orthonormal rows, the
// product is Q^T (L^T M) P with a middle of n x n; its largest singular vectors
// are found by orthogonal iteration. `rest`, which may be null, keeps nearly
// the best rows of the remainder; the next call adds them to its factors. With
// enough feedback_rows, the returned factors and the rest together equal all
// given factors, up to rounding. Rows of `inputs` have length one. Rows may be
// zero, linearly dependent, and of any magnitude. If a number or the result is
// not finite, `full` is returned and the rest is unchanged.
Factors low_rank(const Factors& full, const LowRankOptions& options,
                 Factors* rest);

// The algorithm of dad_torch, without its errors in the last rows, and for
// linearly dependent rows with fewer directions than `rank`. If a number is not
// finite, `full` is returned.
Factors power_iteration(const Factors& full, int rank, int iterations,
                        double tolerance, std::uint64_t seed);

}  // namespace sheaf::parallel
