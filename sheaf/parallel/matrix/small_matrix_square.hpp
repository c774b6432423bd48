#pragma once
// Products, orthonormalization and Jacobi's method for small matrices; see
// small_matrix_loops.hpp.

#include "sheaf/parallel/matrix/small_matrix_rows.hpp"

namespace sheaf::parallel {
namespace {

// A matrix or its transpose, given by strides.
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

// out (rows x columns) = a (rows x inner) x (inner x columns), where columns is
// a multiple of kPanel.
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

void set_identity(double* x, Index n) {
  for (Index i = 0; i < n * n; ++i) x[i] = i % (n + 1) == 0 ? 1 : 0;
}

// For columns of a matrix with `stride` columns.
double dot_of(const double* x, const double* y, Index rows, Index stride) {
  double sum = 0;
  for (Index i = 0; i < rows; ++i) sum += x[i * stride] * y[i * stride];
  return sum;
}
void scale_column(double* x, Index rows, Index stride, double by) {
  for (Index i = 0; i < rows; ++i) x[i * stride] *= by;
}

// Removes the components of column j in the columns before it. `sums` needs j
// elements.
void subtract_earlier(double* __restrict__ x, Index rows, Index columns,
                      Index j, double* __restrict__ sums) {
  for (Index c = 0; c < j; ++c) sums[c] = 0;
  for (Index i = 0; i < rows; ++i) {
    const double* const row = x + i * columns;
    for (Index c = 0; c < j; ++c) sums[c] += row[c] * row[j];
  }
  for (Index i = 0; i < rows; ++i) {
    double* const row = x + i * columns;
    double sum = 0;
    for (Index c = 0; c < j; ++c) sum += row[c] * sums[c];
    row[j] -= sum;
  }
}

double length_of(const double* x, Index rows, Index stride) {
  return __builtin_sqrt(dot_of(x, x, rows, stride));
}

// Smallest length whose square does not underflow.
constexpr double kAnyLength = 1e-150;

// Gram-Schmidt method, twice for each column. A column becomes zero if its
// length is at most `least`, or if at most this fraction of it, or only
// rounding errors, remains after the earlier columns are removed.
void orthonormalize(double* x, Index rows, Index columns, double least,
                    double* sums) {
  // Minimum remaining length of a unit column: after the second pass nearly all
  // must remain.
  constexpr double kRounding = 1e-14;
  const double must_be_left[] = {least > kRounding ? least : kRounding, 0.5};
  for (Index j = 0; j < columns; ++j) {
    double* const own = x + j;
    double length = length_of(own, rows, columns);
    bool is_own = length > least;
    for (int time = 0; time < 2 && is_own; ++time) {
      scale_column(own, rows, columns, 1 / length);
      subtract_earlier(x, rows, columns, j, sums);
      length = length_of(own, rows, columns);
      is_own = length > must_be_left[time];
    }
    scale_column(own, rows, columns, is_own ? 1 / length : 0);
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

// The rotation that diagonalizes the symmetric 2 x 2 matrix of a, off and b.
Rotation rotation_for(double a, double b, double off) {
  const double by = (b - a) / (2 * off);
  const double t =
      (by < 0 ? -1 : 1) / (__builtin_fabs(by) + __builtin_sqrt(by * by + 1));
  const double c = 1 / __builtin_sqrt(t * t + 1);
  return {c, t * c};
}

// Sweeps of Jacobi's method: h = rows^T h' rows, where h' is closer to diagonal
// and replaces h.
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
        const Rotation by = rotation_for(a, b, off);
        rotate(h + p, h + q, n, n, by);
        rotate(h + p * n, h + q * n, n, 1, by);
        rotate(rows + p * n, rows + q * n, n, 1, by);
      }
  }
}

// One-sided Jacobi method on the columns of z, which keeps small singular
// values accurate: the columns become orthogonal, and the columns of u are
// rotated with them.
struct Columns {
  double* z;
  double* u;
  Index z_rows;
  Index u_rows;
  Index count;
};
void separate(const Columns& x) {
  constexpr int kSweeps = 40;
  bool is_done = false;
  for (int sweep = 0; sweep < kSweeps && !is_done; ++sweep) {
    is_done = true;
    for (Index p = 0; p < x.count; ++p)
      for (Index q = p + 1; q < x.count; ++q) {
        const double a = dot_of(x.z + p, x.z + p, x.z_rows, x.count);
        const double b = dot_of(x.z + q, x.z + q, x.z_rows, x.count);
        const double off = dot_of(x.z + p, x.z + q, x.z_rows, x.count);
        if (__builtin_fabs(off) <= 1e-15 * __builtin_sqrt(a * b)) continue;
        is_done = false;
        const Rotation by = rotation_for(a, b, off);
        rotate(x.z + p, x.z + q, x.z_rows, x.count, by);
        rotate(x.u + p, x.u + q, x.u_rows, x.count, by);
      }
  }
}

void swap_columns(double* x, Index rows, Index columns, Index p, Index q) {
  for (Index i = 0; i < rows; ++i) {
    const double kept = x[i * columns + p];
    x[i * columns + p] = x[i * columns + q];
    x[i * columns + q] = kept;
  }
}

// Sorts the columns by the length in z, longest first; `values` receives the
// squared lengths.
void sort(const Columns& x, double* values) {
  for (Index c = 0; c < x.count; ++c)
    values[c] = dot_of(x.z + c, x.z + c, x.z_rows, x.count);
  for (Index c = 0; c < x.count; ++c) {
    Index best = c;
    for (Index i = c + 1; i < x.count; ++i)
      if (values[i] > values[best]) best = i;
    if (best == c) continue;
    swap_columns(x.z, x.z_rows, x.count, c, best);
    swap_columns(x.u, x.u_rows, x.count, c, best);
    swap_columns(values, 1, x.count, c, best);
  }
}

void swap(double*& a, double*& b) {
  double* const c = a;
  a = b;
  b = c;
}

}  // namespace
}  // namespace sheaf::parallel
