#pragma once
// The best factors of few rows: for a product D^T A of n rows, those of r rows
// whose product is nearest to it.

#include <torch/types.h>

#include <cstdint>

namespace sheaf::parallel {

struct LowRankOptions {
  int rank = 4;  // rows at most
  // Fewer rows where the rest has at most this part of the product's norm.
  double tolerance = 0;
  // What was left out is added the next time, up to this number of rows; 0: it
  // is lost.
  int feedback_rows = 16;
  // Sequential power iteration with deflation, as in dad_torch, for
  // comparisons: this number of iterations per row. 0: the exact factors.
  int power_iterations = 0;
};

struct Factors {
  at::Tensor inputs;  // r x in
  at::Tensor deltas;  // r x out
};

// With D = L Q and inputs = M P, where Q and P have orthonormal rows, the
// product is Q^T (L^T M) P, whose middle is n x n; its largest singular vectors
// are found by orthogonal iteration. Of what is left out `rest`, which may be
// null, keeps nearly the best rows for the next call, which adds them to its
// own: with enough feedback_rows, all given factors are what was returned and
// the rest, to rounding. Rows of `inputs` have length one. Rows may be zero,
// depend on each other, and be of any size; where a number, or the result, is
// not finite, `full` itself is returned, and the rest stays as it was.
Factors low_rank(const Factors& full, const LowRankOptions& options,
                 Factors* rest);

// The same as dad_torch does it, but for its faults with the last rows, and
// with rows that depend on each other, where there are fewer directions than
// `rank`. Where a number is not finite, `full` itself.
Factors power_iteration(const Factors& full, int rank, int iterations,
                        double tolerance, std::uint64_t seed);

}  // namespace sheaf::parallel
