#pragma once
// Data whose reductions are exact in every element type, so that results can
// be compared bit by bit.

#include "sheaf/cli/bench/bench_shape.hpp"

namespace sheaf::cli {

// Elements `first` .. `first + count` of the input of `rank`.
void fill_exact(const comm::BaselineCall& call, int rank, std::size_t first,
                std::size_t count, void* elements);

// Makes `slot` ready for a call whose result count_wrong() will look at.
void prepare_slot(const Shape& shape, std::byte* slot);

// How many elements of this rank's result are not what they must be.
std::size_t count_wrong(const Shape& shape, const void* result);

}  // namespace sheaf::cli
