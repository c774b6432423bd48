#pragma once
// Checks that ranks have the same bits where Sheaf guarantees them.

#include <string>
#include <vector>

#include "under_test.hpp"

namespace differential {

// Every step ends with an exchange, so that gradients and weights at its end
// have the same bits on all ranks, with all strategies here:
// docs/howto/data_parallel.md, docs/explanation/dad.md ("Equal bits"),
// docs/explanation/spatial.md (filters that ranks own are not generated).
// Buffers may differ between ranks. Returns the first tensor that differs, and
// the ranks; empty if none does. Ranks may have taken fewer steps, or have
// ended with an error.
std::string unequal_bits(const std::vector<RankResult>& found);

}  // namespace differential
