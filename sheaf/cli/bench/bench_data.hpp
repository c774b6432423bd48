#pragma once
// Data whose reductions are exact in every element type, so that results can
// be compared bit by bit.

#include "sheaf/cli/bench/bench_shape.hpp"

namespace sheaf::cli {

// Writes `count` elements of the input of `rank`, starting at element `first`.
void fill_exact(const comm::BaselineCall& call, int rank, std::size_t first,
                std::size_t count, void* elements);

// Fills `slot` with the input of a call whose result count_wrong() checks.
void prepare_slot(const Shape& shape, std::byte* slot);

// The number of wrong elements in this rank's result.
std::size_t count_wrong(const Shape& shape, const void* result);

}  // namespace sheaf::cli
