#pragma once
// Finds a small case that still fails.

#include <functional>

#include "plain/case.hpp"

namespace differential {

// Drops steps, blocks and values and reduces values, one at a time, while
// `fails` holds; until nothing more can be dropped or the time is over.
Case shrink(const Case& one, const std::function<bool(const Case&)>& fails,
            double seconds);

}  // namespace differential
