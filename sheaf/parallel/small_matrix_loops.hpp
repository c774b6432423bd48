#pragma once
// The loops of small_matrix.hpp. Included once per instruction set, by sources
// with flags of their own: nothing here may be shared between those, so all is
// in an anonymous namespace and nothing of the standard library is used.

#include "sheaf/parallel/small_matrix.hpp"

namespace sheaf::parallel {
namespace {

using Index = std::int64_t;

#if defined(__AVX512F__)
constexpr int kBytes = 64;
constexpr int kGramTile = 5;  // its square of sums fits the registers
constexpr int kRowTile = 8;
constexpr int kPanels = 2;  // at once
#elif defined(__AVX2__)
constexpr int kBytes = 32;
constexpr int kGramTile = 3;
constexpr int kRowTile = 4;
constexpr int kPanels = 1;
#else
constexpr int kBytes = 16;
constexpr int kGramTile = 3;
constexpr int kRowTile = 2;
constexpr int kPanels = 1;
#endif

template <class T>
struct VectorOf {
  // Rows begin anywhere.
  typedef T Type
      __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
  static constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
};
template <class T>
using Vector = typename VectorOf<T>::Type;

template <class T>
const Vector<T>& at(const T* from) {
  return *reinterpret_cast<const Vector<T>*>(from);
}
template <class T>
Vector<T>& at(T* to) {
  return *reinterpret_cast<Vector<T>*>(to);
}

Index smaller(Index a, Index b) { return a < b ? a : b; }

template <class T>
double sum_of(const Vector<T>& vector) {
  typedef T Part
      __attribute__((vector_size(16), aligned(alignof(T)), may_alias));
  Part sum[kBytes / 16];
  __builtin_memcpy(sum, &vector, kBytes);
  for (int half = kBytes / 32; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
  T all = 0;
  for (int i = 0; i < 16 / static_cast<int>(sizeof(T)); ++i) all += sum[0][i];
  return all;
}

double dot(const double* a, const double* b, Index count) {
  constexpr int kLanes = VectorOf<double>::kLanes;
  Vector<double> sums[4] = {};
  Index i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes)
    for (int j = 0; j < 4; ++j)
      sums[j] += at(a + i + j * kLanes) * at(b + i + j * kLanes);
  double sum = sum_of<double>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// Columns from `begin` on: the caches keep a piece of all rows, and floats are
// added to few others.
constexpr Index kPiece = 2048;

// The products of kGramTile rows with as many, added to `sums`.
template <class T>
void add_products(const T* const* a, const T* const* b, Index begin, Index end,
                  double (*sums)[kGramTile]) {
  constexpr int kLanes = VectorOf<T>::kLanes;
  Vector<T> sum[kGramTile][kGramTile] = {};
  Index k = begin;
  for (; k + kLanes <= end; k += kLanes) {
    Vector<T> right[kGramTile];
    for (int j = 0; j < kGramTile; ++j) right[j] = at(b[j] + k);
    for (int i = 0; i < kGramTile; ++i) {
      const Vector<T> left = at(a[i] + k);
      for (int j = 0; j < kGramTile; ++j) sum[i][j] += left * right[j];
    }
  }
  for (int i = 0; i < kGramTile; ++i)
    for (int j = 0; j < kGramTile; ++j) {
      double more = sum_of<T>(sum[i][j]);
      for (Index c = k; c < end; ++c) more += double(a[i][c]) * b[j][c];
      sums[i][j] += more;
    }
}

template <class T>
void gram_tile(const RowsOf<T>& w, Index row, Index column, Index begin,
               double* out) {
  const T* a[kGramTile];
  const T* b[kGramTile];
  for (int i = 0; i < kGramTile; ++i) {
    a[i] = w.rows[smaller(row + i, w.count - 1)];
    b[i] = w.rows[smaller(column + i, w.count - 1)];
  }
  double sums[kGramTile][kGramTile] = {};
  add_products(a, b, begin, smaller(begin + kPiece, w.width), sums);
  for (Index i = 0; i < kGramTile && row + i < w.count; ++i)
    for (Index j = 0; j < kGramTile && column + j <= row + i; ++j)
      out[(row + i) * w.count + column + j] += sums[i][j];
}

template <class T>
void gram(const RowsOf<T>& w, double* out) {
  const Index n = w.count;
  for (Index i = 0; i < n * n; ++i) out[i] = 0;
  for (Index begin = 0; begin < w.width; begin += kPiece)
    for (Index i = 0; i < n; i += kGramTile)
      for (Index j = 0; j <= i; j += kGramTile) gram_tile(w, i, j, begin, out);
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < i; ++j) out[j * n + i] = out[i * n + j];
}

constexpr int kOutRows = 4;
constexpr int kOutVectors = 4;

// `rows` rows and `vectors` vectors of columns of the result.
template <class T, int rows, int vectors>
void combine_tile(const RowsOf<T>& w, const T* coefficients, Index column,
                  T* out) {
  constexpr int kLanes = VectorOf<T>::kLanes;
  Vector<T> sum[rows][vectors] = {};
  for (Index k = 0; k < w.count; ++k) {
    const T* from = w.rows[k] + column;
    Vector<T> right[vectors];
    for (int j = 0; j < vectors; ++j) right[j] = at(from + j * kLanes);
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < vectors; ++j)
        sum[i][j] += coefficients[i * w.count + k] * right[j];
  }
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < vectors; ++j)
      at(out + i * w.width + column + j * kLanes) = sum[i][j];
}

template <class T, int rows>
void combine_columns(const RowsOf<T>& w, const T* coefficients, Index column,
                     Index end, T* out) {
  constexpr int kLanes = VectorOf<T>::kLanes;
  if (end - column == kOutVectors * kLanes)
    return combine_tile<T, rows, kOutVectors>(w, coefficients, column, out);
  for (; column + kLanes <= end; column += kLanes)
    combine_tile<T, rows, 1>(w, coefficients, column, out);
  for (; column < end; ++column)
    for (int i = 0; i < rows; ++i) {
      T sum = 0;
      for (Index k = 0; k < w.count; ++k)
        sum += coefficients[i * w.count + k] * w.rows[k][column];
      out[i * w.width + column] = sum;
    }
}

template <class T>
void combine(const RowsOf<T>& w, const T* coefficients, Index count, T* out) {
  constexpr Index kColumns = kOutVectors * VectorOf<T>::kLanes;
  for (Index column = 0; column < w.width; column += kColumns) {
    const Index end = smaller(column + kColumns, w.width);
    Index i = 0;
    for (; i + kOutRows <= count; i += kOutRows)
      combine_columns<T, kOutRows>(w, coefficients + i * w.count, column, end,
                                   out + i * w.width);
    for (; i < count; ++i)
      combine_columns<T, 1>(w, coefficients + i * w.count, column, end,
                            out + i * w.width);
  }
}

// Any matrix, or its transpose, by its strides.
struct Strided {
  const double* data;
  Index row_stride;
  Index column_stride;
};

template <int rows, int panels>
void multiply_tile(const Strided& a, Index inner, const double* x,
                   Index columns, double* out) {
  constexpr int kLanes = VectorOf<double>::kLanes;
  constexpr int kVectors = panels * static_cast<int>(kPanel) / kLanes;
  Vector<double> sum[rows][kVectors] = {};
  for (Index k = 0; k < inner; ++k)
    for (int i = 0; i < rows; ++i)
      for (int v = 0; v < kVectors; ++v)
        sum[i][v] += a.data[i * a.row_stride + k * a.column_stride] *
                     at(x + k * columns + v * kLanes);
  for (int i = 0; i < rows; ++i)
    for (int v = 0; v < kVectors; ++v)
      at(out + i * columns + v * kLanes) = sum[i][v];
}

template <int rows>
void multiply_rows(const Strided& a, Index inner, const double* x,
                   Index columns, double* out) {
  Index p = 0;
  for (; p + kPanels * kPanel <= columns; p += kPanels * kPanel)
    multiply_tile<rows, kPanels>(a, inner, x + p, columns, out + p);
  for (; p < columns; p += kPanel)
    multiply_tile<rows, 1>(a, inner, x + p, columns, out + p);
}

// out (rows x columns) = a (rows x inner) x (inner x columns), with columns a
// multiple of kPanel.
void multiply(const Strided& a, Index rows, Index inner, const double* x,
              Index columns, double* out) {
  const auto from = [&](Index row) {
    return Strided{a.data + row * a.row_stride, a.row_stride, a.column_stride};
  };
  Index i = 0;
  for (; i + kRowTile <= rows; i += kRowTile)
    multiply_rows<kRowTile>(from(i), inner, x, columns, out + i * columns);
  for (; i < rows; ++i)
    multiply_rows<1>(from(i), inner, x, columns, out + i * columns);
}

// y -= factor x.
void subtract(double factor, const double* x, Index n, double* y) {
  for (Index i = 0; i < n; ++i) y[i] -= factor * x[i];
}

void scale(double factor, Index n, double* x) {
  for (Index i = 0; i < n; ++i) x[i] *= factor;
}
void set_identity(double* x, Index n) {
  for (Index i = 0; i < n * n; ++i) x[i] = i % (n + 1) == 0 ? 1 : 0;
}

// L^-1 for h = L L^T, by elimination, which takes h. Rows for columns of h that
// depend on earlier ones become zero; `is_own` is 1 for the others.
void invert_cholesky(double* h, Index n, double* inverse, double* is_own) {
  constexpr double kDependent = 1e-13;
  set_identity(inverse, n);
  for (Index j = 0; j < n; ++j) is_own[j] = h[j * (n + 1)];
  for (Index j = 0; j < n; ++j) {
    const double pivot = h[j * (n + 1)];
    is_own[j] = pivot > kDependent * is_own[j] && pivot > 1e-290 ? 1 : 0;
    for (Index i = j + 1; is_own[j] > 0 && i < n; ++i) {
      const double part = h[i * n + j] / pivot;
      subtract(part, h + j * n, n, h + i * n);
      subtract(part, inverse + j * n, n, inverse + i * n);
    }
    scale(is_own[j] > 0 ? 1 / __builtin_sqrt(pivot) : 0, n, inverse + j * n);
  }
}

struct Rotation {
  double c;
  double s;
};

void rotate(double* x, double* y, Index count, Index stride, Rotation by) {
  for (Index i = 0; i < count * stride; i += stride) {
    const double a = x[i];
    x[i] = by.c * a - by.s * y[i];
    y[i] = by.s * a + by.c * y[i];
  }
}

// Sweeps of Jacobi's method: h = rows^T h' rows, where h' is nearer to diagonal
// and takes the place of h.
void diagonalise(double* h, Index n, double* rows, int sweeps) {
  for (bool is_diagonal = false; sweeps > 0 && !is_diagonal; --sweeps) {
    is_diagonal = true;
    for (Index p = 0; p < n; ++p)
      for (Index q = p + 1; q < n; ++q) {
        const double off = h[p * n + q];
        const double a = h[p * n + p];
        const double b = h[q * n + q];
        if (off * off <= 1e-24 * __builtin_fabs(a * b) || off == 0) continue;
        is_diagonal = false;
        const double by = (b - a) / (2 * off);
        const double t = (by < 0 ? -1 : 1) /
                         (__builtin_fabs(by) + __builtin_sqrt(by * by + 1));
        const double c = 1 / __builtin_sqrt(t * t + 1);
        rotate(h + p, h + q, n, n, {c, t * c});
        rotate(h + p * n, h + q * n, n, 1, {c, t * c});
        rotate(rows + p * n, rows + q * n, n, 1, {c, t * c});
      }
  }
}

// The largest of the diagonal first.
void sort(double* h, Index n, double* rows) {
  for (Index c = 0; c < n; ++c) {
    Index best = c;
    for (Index i = c + 1; i < n; ++i)
      if (h[i * (n + 1)] > h[best * (n + 1)]) best = i;
    if (best == c) continue;
    // A quarter of a turn, which changes one sign.
    rotate(h + c, h + best, n, n, {0, 1});
    rotate(h + c * n, h + best * n, n, 1, {0, 1});
    rotate(rows + c * n, rows + best * n, n, 1, {0, 1});
  }
}

void swap(double*& a, double*& b) {
  double* const c = a;
  a = b;
  b = c;
}

// Numbers between -1 and 1 that depend on nothing.
void fill_any(double* x, Index count) {
  std::uint64_t state = 1;
  for (Index i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x[i] = static_cast<double>(static_cast<std::int64_t>(state)) * 0x1p-63;
  }
}

constexpr int kMostIterations = 60;
// What an iteration still gains, as part of what is left out.
constexpr double kConverged = 2e-4;

// The block of an orthogonal iteration, and what A and B A make of it.
struct Block {
  double* x;
  double* ax;
  double* bax;
  double* spare;
  double* h;  // these are block x block
  double* turn;
  double* rows;
  double* values;
};

Block block_in(const PairsProblem& problem) {
  const Index size = problem.n * problem.block;
  const Index square = problem.block * problem.block;
  double* const columns = problem.work;
  double* const small = columns + 4 * size;
  return {columns, columns + size, columns + 2 * size, columns + 3 * size,
          small,   small + square, small + 2 * square, small + 3 * square};
}

void turn(double*& columns, Block& block, const PairsProblem& problem) {
  multiply({columns, problem.block, 1}, problem.n, problem.block, block.turn,
           problem.block, block.spare);
  swap(columns, block.spare);
}

void set_turn(Block& block, Index size) {
  for (Index c = 0; c < size; ++c)
    for (Index i = 0; i < size; ++i)
      block.turn[i * size + c] = block.rows[c * size + i];
}

// Under A. Columns that depend on others become zero, their values too.
void orthonormalise(Block& block, const PairsProblem& problem) {
  const Index n = problem.n;
  const Index size = problem.block;
  multiply({problem.a, n, 1}, n, n, block.x, size, block.ax);
  multiply({block.x, 1, size}, size, n, block.ax, size, block.h);
  invert_cholesky(block.h, size, block.rows, block.values);
  set_turn(block, size);
  turn(block.x, block, problem);
  turn(block.ax, block, problem);
}

// `turn` gets the eigenvectors of h, as far as the sweeps find them.
void find_turn(Block& block, Index size, int sweeps) {
  diagonalise(block.h, size, block.rows, sweeps);
  sort(block.h, size, block.rows);
  set_turn(block, size);
  for (Index c = 0; c < size; ++c) {
    const double value = block.h[c * (size + 1)];
    block.values[c] = value > 0 ? value : 0;
  }
}

// x becomes orthonormal under A; `turn` would make its columns nearly the
// eigenvectors of B A within them. Returns what the wanted of those have of the
// trace.
double improve(Block& block, const PairsProblem& problem) {
  const Index n = problem.n;
  const Index size = problem.block;
  orthonormalise(block, problem);
  multiply({problem.b, n, 1}, n, n, block.ax, size, block.bax);
  multiply({block.ax, 1, size}, size, n, block.bax, size, block.h);
  set_identity(block.rows, size);
  find_turn(block, size, /*sweeps=*/2);
  double sum = 0;
  for (Index c = 0; c < problem.wanted; ++c) sum += block.values[c];
  return sum;
}

void iterate(Block& block, const PairsProblem& problem, double total) {
  double sum = improve(block, problem);
  for (int i = 1; i < kMostIterations; ++i) {
    turn(block.bax, block, problem);
    swap(block.x, block.bax);
    const double before = sum;
    sum = improve(block, problem);
    const double gain = __builtin_fabs(sum - before);
    if (gain <= kConverged * (total - sum) || gain <= 1e-14 * total) return;
  }
}

// Orthogonal iteration. Each time the block is turned towards the eigenvectors
// within it, so that its first columns are the best so far, and so that
// products do not make columns alike.
Pairs find_largest(const PairsProblem& problem) {
  Block block = block_in(problem);
  const double total = dot(problem.a, problem.b, problem.n * problem.n);
  for (Index c = 0; c < problem.block; ++c) block.values[c] = 0;
  const bool is_finite = total - total == 0;
  if (is_finite && total > 0) {
    fill_any(block.x, problem.n * problem.block);
    iterate(block, problem, total);
    find_turn(block, problem.block, /*sweeps=*/30);
    turn(block.x, block, problem);
    turn(block.ax, block, problem);
  }
  return {block.x, block.ax, block.values, total};
}

// x loses what it has of the first `rank` columns that were found.
void project_out(const RestProblem& problem, Block& block) {
  const Index n = problem.pairs->n;
  const Index found = problem.pairs->block;
  multiply({problem.found->ax, 1, found}, problem.rank, n, block.x,
           problem.block, block.h);
  multiply({problem.found->x, found, 1}, n, problem.rank, block.h,
           problem.block, block.spare);
  subtract(1, block.spare, n * problem.block, block.x);
}

// As many columns are sought, few steps of orthogonal iteration from anywhere
// come near to the best; for all that is left none is needed.
Pairs find_rest(const RestProblem& problem) {
  constexpr int kSteps = 2;
  PairsProblem rest = *problem.pairs;
  const Index n = rest.n;
  rest.block = problem.block;
  rest.work = problem.work;
  Block block = block_in(rest);
  fill_any(block.x, n * rest.block);
  project_out(problem, block);
  const int steps = n - problem.rank > rest.block ? kSteps : 0;
  if (steps > 0) multiply({rest.a, n, 1}, n, n, block.x, rest.block, block.ax);
  for (int i = 0; i < steps; ++i) {
    if (i > 0) orthonormalise(block, rest);
    multiply({rest.b, n, 1}, n, n, block.ax, rest.block, block.x);
    project_out(problem, block);
  }
  orthonormalise(block, rest);
  return {block.x, block.ax, block.values, 0};
}

constexpr MatrixLoops make_loops(const char* name) {
  return {name,           gram<float>,     gram<double>,
          combine<float>, combine<double>, find_largest,
          find_rest};
}

}  // namespace
}  // namespace sheaf::parallel
