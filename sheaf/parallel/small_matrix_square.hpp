#pragma once
// Products, decompositions and eigenvectors of small matrices; see
// small_matrix_loops.hpp.

#include "sheaf/parallel/small_matrix_rows.hpp"

namespace sheaf::parallel {
namespace {

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

}  // namespace
}  // namespace sheaf::parallel
