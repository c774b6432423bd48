#pragma once
// What low-rank factors are computed with: sums over the rows of wide thin
// matrices, and matrices of n x n for few rows n. Matrices lie row by row.
// The loops exist once per instruction set; all are deterministic.

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

// Columns of a block are a multiple of this.
constexpr std::int64_t kPanel = 8;

// A matrix C = L^T R of few rows and columns.
struct CoreMatrix {
  std::int64_t n;      // rows of L and R
  std::int64_t left;   // columns of L, at most n: rows of C
  std::int64_t right;  // columns of R, at most n: columns of C
  const double* l;     // n x left
  const double* r;     // n x right
  double total;        // the sum of the squares of C
};

// Orthonormal columns u, and z = C^T u. Columns that do not exist are zero.
// The sum of u z^T over some of the columns is what C has in their span: with
// what it has in the span of all others it gives C, to rounding.
struct Pairs {           // in `work`
  const double* u;       // left x block
  const double* z;       // right x block
  const double* values;  // block: the squared lengths of z
};

// The first columns of u are those of the largest singular values, descending.
struct LargestProblem {
  CoreMatrix core;
  std::int64_t block;   // columns: a multiple of kPanel
  std::int64_t wanted;  // as many are to be exact
  double* work;         // work_size(n, block)
};

// Columns that are orthogonal to the first `rank` that were found: of all that
// these leave they hold nearly as much as that number of columns can, or
// everything.
struct RestProblem {
  CoreMatrix core;
  const double* found;       // u of what was found
  std::int64_t found_block;  // its columns
  std::int64_t rank;         // of which these count
  std::int64_t block;        // columns: a multiple of kPanel
  double* work;              // work_size(n, block)
};

constexpr std::int64_t work_size(std::int64_t n, std::int64_t block) {
  return 4 * n * block + 3 * block * block + 2 * block;
}

struct MatrixLoops {
  const char* name;  // of the instruction set
  // out (n x n) = W W^T, with products and sums in double.
  void (*gram)(const RowsOf<float>& w, double* out);
  void (*gram_double)(const RowsOf<double>& w, double* out);
  // out (count x width) = coefficients (count x n) W. Each element is the sum
  // over the rows in their order, rounded after every product and every sum:
  // the same bits with all instruction sets.
  void (*combine)(const RowsOf<float>& w, const float* coefficients,
                  std::int64_t count, float* out);
  void (*combine_double)(const RowsOf<double>& w, const double* coefficients,
                         std::int64_t count, double* out);
  Pairs (*find_largest)(const LargestProblem& problem);
  Pairs (*find_rest)(const RestProblem& problem);
};

// Null where this build holds no code for that instruction set. Calling the
// functions of a table that the processor cannot run is an illegal instruction.
const MatrixLoops* baseline_loops() noexcept;
const MatrixLoops* avx2_loops() noexcept;
const MatrixLoops* avx512_loops() noexcept;

// The tables that this processor can run, the widest last; never empty.
std::span<const MatrixLoops* const> supported_loops() noexcept;

}  // namespace sheaf::parallel
