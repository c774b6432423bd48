#pragma once
// Sums of products with the same bits on every processor and with any number of
// threads: each element is the sum of its terms in their order, rounded after
// every product and every sum. About half as fast as a BLAS, which splits sums
// as the processor and the number of threads suggest.

#include <torch/types.h>

namespace sheaf::parallel {

// a (m x k) times b (k x n), both on the CPU and of one floating type; those of
// 16 bits are multiplied in f32.
at::Tensor portable_product(const at::Tensor& a, const at::Tensor& b);

// Adds row i of `rows` to row `indices[i]` of `table`, one after the other.
// All on the CPU; the floating types agree.
void add_rows_in_order(const at::Tensor& table, const at::Tensor& indices,
                       const at::Tensor& rows);

// Makes the columns of a CPU matrix (n x k, k at most n) of f64 orthonormal by
// the method of Gram and Schmidt, in place. Columns that depend on earlier ones
// become others that do not, the same everywhere.
void orthonormalize_columns(const at::Tensor& matrix);

}  // namespace sheaf::parallel
