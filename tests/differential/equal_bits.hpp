#pragma once
// Whether ranks have the same bits where Sheaf promises them.

#include <string>
#include <vector>

#include "under_test.hpp"

namespace differential {

// Every step ends with an exchange, so gradients and weights at its end have
// the same bits on all ranks, under all strategies here: docs/parallel.md,
// docs/dad.md ("Equal bits"), docs/spatial.md (filters that ranks own are not
// generated). Buffers may be a rank's own. Returns the first tensor that
// differs, and on which ranks; empty: none does. Ranks may have taken fewer
// steps, or have ended in an error.
std::string unequal_bits(const std::vector<RankResult>& found);

}  // namespace differential
