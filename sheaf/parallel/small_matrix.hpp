#pragma once
// What low-rank factors are computed with: sums over the rows of wide thin
// matrices, and matrices of n x n for few rows n. Matrices lie row by row.
// The loops exist once per instruction set; all are deterministic.

#include <cstdint>
#include <span>

namespace sheaf::parallel {

// A thin matrix whose rows lie anywhere.
template <class T>
struct RowsOf {
  const T* const* rows;
  std::int64_t count;
  std::int64_t width;
};

// Columns of a block are a multiple of this.
constexpr std::int64_t kPanel = 8;

// The largest eigenpairs of B A, where A and B are symmetric and have no
// negative eigenvalues: B A x = value x with x^T A x = 1.
struct PairsProblem {
  std::int64_t n;
  std::int64_t block;   // columns: a multiple of kPanel
  std::int64_t wanted;  // as many are to be exact
  const double* a;      // n x n
  const double* b;      // n x n
  double* work;         // 4 n block + 3 block^2 + block
};
struct Pairs {           // in `work`
  const double* x;       // n x block
  const double* ax;      // n x block: A x
  const double* values;  // block; descending, zero where there are no more
  double total;  // of all values; where it is not finite, nothing else is set
};

// Columns x with x^T A x = 1, of which none is in the first `rank` pairs: of
// all that is left they hold nearly as much as so many can, or everything. With
// A = N N^T and B = W W^T that is what is left of N^T W, as
// (x^T N)^T (A x)^T W.
struct RestProblem {
  const PairsProblem* pairs;
  const Pairs* found;
  std::int64_t rank;
  std::int64_t block;  // columns: a multiple of kPanel
  double* work;        // 4 n block + 3 block^2 + block
};

struct MatrixLoops {
  const char* name;  // of the instruction set
  // out (n x n) = W W^T; in float, pieces are summed in double.
  void (*gram)(const RowsOf<float>& w, double* out);
  void (*gram_double)(const RowsOf<double>& w, double* out);
  // out (count x width) = coefficients (count x n) W.
  void (*combine)(const RowsOf<float>& w, const float* coefficients,
                  std::int64_t count, float* out);
  void (*combine_double)(const RowsOf<double>& w, const double* coefficients,
                         std::int64_t count, double* out);
  Pairs (*find_largest)(const PairsProblem& problem);
  // Values are 1, and 0 for columns that are zero for want of more.
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
