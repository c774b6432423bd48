#pragma once
// Every operation in every variant.

#include "tests/support/trial.hpp"

namespace sheaf::test {

// In place and out of place.
void check_all_reduce(const comm::Group& group, Case test);

// Every operation with every root that differs in kind, equal and unequal
// blocks, in place and out of place. Those without a reduction only for
// ReduceOp::kSum.
void check_everything(const comm::Group& group, const Case& test);

// Blocks as large as `test.count` only where their size decides the path;
// elsewhere the blocks of all ranks have `test.count` elements together.
void check_large(const comm::Group& group, const Case& test);

}  // namespace sheaf::test
