#pragma once
// Basic operations for low-rank factors: sums over the rows of wide thin
// matrices, and n x n matrices for a small number of rows n. Matrices are
// row-major. The loops are compiled once per instruction set; all are
// deterministic.

#include <cstdint>
#include <span>

namespace sheaf::parallel {

// A thin matrix whose rows are at arbitrary addresses.
template <class T>
struct RowsOf {
  const T* const* rows;
  std::int64_t count;
  std::int64_t width;
};

// The number of columns of a block is a multiple of this.
constexpr std::int64_t kPanel = 8;

// A small matrix C = L^T R.
struct CoreMatrix {
  std::int64_t n;      // rows of L and R
  std::int64_t left;   // columns of L, at most n: rows of C
  std::int64_t right;  // columns of R, at most n: columns of C
  const double* l;     // n x left
  const double* r;     // n x right
  double total;        // the sum of the squares of C
};

// Orthonormal columns u, and z = C^T u. Missing columns are zero. The sum of u
// z^T over some of the columns is the projection of C onto their span; together
// with the projection onto the span of all others it gives C, up to rounding.
struct Pairs {           // in `work`
  const double* u;       // left x block
  const double* z;       // right x block
  const double* values;  // block: the squared lengths of z
};

// The first columns of u belong to the largest singular values, in descending
// order.
struct LargestProblem {
  CoreMatrix core;
  std::int64_t block;   // number of columns: a multiple of kPanel
  std::int64_t wanted;  // number of columns that must be exact
  double* work;         // work_size(n, block)
};

// Finds columns orthogonal to the first `rank` found columns. They capture
// nearly as much of the remainder as this number of columns can, or all of it.
struct RestProblem {
  CoreMatrix core;
  const double* found;       // u of the found columns
  std::int64_t found_block;  // number of columns of `found`
  std::int64_t rank;         // number of columns of `found` to use
  std::int64_t block;        // number of columns: a multiple of kPanel
  double* work;              // work_size(n, block)
};

constexpr std::int64_t work_size(std::int64_t n, std::int64_t block) {
  return 4 * n * block + 3 * block * block + 2 * block;
}

struct MatrixLoops {
  const char* name;  // name of the instruction set
  // out (n x n) = W W^T, with products and sums in double.
  void (*gram)(const RowsOf<float>& w, double* out);
  void (*gram_double)(const RowsOf<double>& w, double* out);
  // out (count x width) = coefficients (count x n) W. Each element is the sum
  // over the rows in order, rounded after every product and every sum: the same
  // bits with all instruction sets.
  void (*combine)(const RowsOf<float>& w, const float* coefficients,
                  std::int64_t count, float* out);
  void (*combine_double)(const RowsOf<double>& w, const double* coefficients,
                         std::int64_t count, double* out);
  Pairs (*find_largest)(const LargestProblem& problem);
  Pairs (*find_rest)(const RestProblem& problem);
};

// Null if this build has no code for the instruction set. Calling functions of
// a table that the processor does not support causes an illegal instruction.
const MatrixLoops* baseline_loops() noexcept;
const MatrixLoops* avx2_loops() noexcept;
const MatrixLoops* avx512_loops() noexcept;

// The tables that this processor supports, the widest last; never empty.
std::span<const MatrixLoops* const> supported_loops() noexcept;

}  // namespace sheaf::parallel
