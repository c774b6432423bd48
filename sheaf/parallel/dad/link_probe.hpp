#pragma once
// Measures how fast the ranks of a group communicate and compute. Takes some
// tens of milliseconds.

#include "sheaf/parallel/dad/dad_plan.hpp"

namespace sheaf::parallel {

// Returns the same values on all ranks. All ranks must call it.
LinkModel measure_link(const comm::Group& group, Where where);

}  // namespace sheaf::parallel
