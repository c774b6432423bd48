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
  // What was left out is added the next time, up to so many rows of it; 0:
  // it is lost.
  int feedback_rows = 16;
  // Sequential power iteration with deflation, as in dad_torch, for
  // comparisons: so many steps for each row. 0: the exact factors.
  int power_iterations = 0;
};

struct Factors {
  at::Tensor inputs;  // r x in
  at::Tensor deltas;  // r x out
};

// From matrices of n x n only: with A = D D^T and B those of the inputs, an
// eigenvector x of B A with x^T A x = 1 gives the singular vector x^T D and,
// times its value, (A x)^T inputs; the narrower factor takes the place of D.
// The largest are found by orthogonal iteration. Of what is left out `rest`,
// which may be null, keeps nearly the best rows for the next call, which adds
// them to its own. Rows of `inputs` have length one.
Factors low_rank(const Factors& full, const LowRankOptions& options,
                 Factors* rest);

// The same as dad_torch does it, but for its faults with the last rows.
Factors power_iteration(const Factors& full, int rank, int iterations,
                        double tolerance, std::uint64_t seed);

}  // namespace sheaf::parallel
