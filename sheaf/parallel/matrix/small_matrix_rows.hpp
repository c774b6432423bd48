#pragma once
// Vectors, and the sums over rows of small_matrix.hpp; see
// small_matrix_loops.hpp.

#include "sheaf/parallel/matrix/small_matrix.hpp"

namespace sheaf::parallel {
namespace {

using Index = std::int64_t;

#if defined(__AVX512F__)
constexpr int kBytes = 64;
constexpr int kGramTile = 5;  // the square of sums fits the registers
constexpr int kRowTile = 8;
constexpr int kPanels = 2;  // processed together
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
  // Rows need not be aligned.
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

// Converts to double, in which products of floats are exact.
template <class T>
Vector<double> wide_at(const T* from) {
  constexpr int kLanes = VectorOf<double>::kLanes;
  typedef T Part __attribute__((vector_size(kLanes * sizeof(T)),
                                aligned(alignof(T)), may_alias));
  return __builtin_convertvector(*reinterpret_cast<const Part*>(from),
                                 Vector<double>);
}

Index smaller(Index a, Index b) { return a < b ? a : b; }

double sum_of(const Vector<double>& vector) {
  double sum = 0;
  for (int i = 0; i < VectorOf<double>::kLanes; ++i) sum += vector[i];
  return sum;
}

// Columns per piece: the caches hold a piece of all rows.
constexpr Index kPiece = 2048;

// Adds the products of kGramTile rows with kGramTile other rows to `sums`.
template <class T>
void add_products(const T* const* a, const T* const* b, Index begin, Index end,
                  double (*sums)[kGramTile]) {
  constexpr int kLanes = VectorOf<double>::kLanes;
  Vector<double> sum[kGramTile][kGramTile] = {};
  Index k = begin;
  for (; k + kLanes <= end; k += kLanes) {
    Vector<double> right[kGramTile];
    for (int j = 0; j < kGramTile; ++j) right[j] = wide_at(b[j] + k);
    for (int i = 0; i < kGramTile; ++i) {
      const Vector<double> left = wide_at(a[i] + k);
      for (int j = 0; j < kGramTile; ++j) sum[i][j] += left * right[j];
    }
  }
  for (int i = 0; i < kGramTile; ++i)
    for (int j = 0; j < kGramTile; ++j) {
      double more = sum_of(sum[i][j]);
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

// Computes `rows` rows and `vectors` vectors of columns of the result.
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

}  // namespace
}  // namespace sheaf::parallel
