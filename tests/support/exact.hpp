#pragma once
// Inputs whose reductions are exact in every type, so that results are
// compared bit by bit.

#include <cstddef>
#include <vector>

#include "sheaf/comm/kernels/reduce_kernels.hpp"

namespace sheaf::test {

// Small integers that depend on rank and index. Their products stay small: most
// are 1.
double exact_value(int rank, std::size_t index, comm::ReduceOp op);

void store(DType dtype, std::byte* at, double value);

std::vector<std::byte> exact_data(DType dtype, comm::ReduceOp op, int rank,
                                  std::size_t count, std::size_t first = 0);
// The reduction of exact_data over `ranks` ranks.
std::vector<std::byte> exact_result(DType dtype, comm::ReduceOp op, int ranks,
                                    std::size_t count, std::size_t first = 0);

}  // namespace sheaf::test
