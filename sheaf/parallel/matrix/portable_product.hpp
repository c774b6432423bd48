#pragma once
// Matrix products whose bits are the same on several ranks.

#include <torch/types.h>

#include <cstdint>
#include <string>

namespace sheaf::parallel {

// Identifies what determines the bits of libtorch's products on this rank
// besides their factors: the processor, the builds of libtorch and the BLAS
// library, the instruction set, the number of threads, and related environment
// variables. If two ranks have the same identity, libtorch gives the same bits
// on both; otherwise the bits may differ.

// The current description for the calling thread. `device`: index of a GPU, or
// -1 for the CPU.
std::string describe_products(int device);
// A 64-bit hash of that text.
std::int64_t product_identity(int device);

// The following have the same bits on every processor and with any number of
// threads: each element is the sum of its terms in order, rounded after every
// product and every sum. They are about half as fast as a BLAS, which splits
// sums depending on the processor and the number of threads.

// a (m x k) times b (k x n), both on the CPU and of the same floating-point
// type; 16-bit types are multiplied in f32.
at::Tensor portable_product(const at::Tensor& a, const at::Tensor& b);

// Adds row i of `rows` to row `indices[i]` of `table`, in order. All tensors
// are on the CPU; the floating-point types must be equal.
void add_rows_in_order(const at::Tensor& table, const at::Tensor& indices,
                       const at::Tensor& rows);

// Orthonormalizes the columns of a CPU matrix (n x k, k at most n) of f64 in
// place, with the Gram-Schmidt method. Columns that depend on earlier ones are
// replaced by independent ones, which are the same on all machines.
void orthonormalize_columns(const at::Tensor& matrix);

}  // namespace sheaf::parallel
