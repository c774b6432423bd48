#pragma once
// How fast the ranks of a group exchange and compute, measured in some tens of
// milliseconds.

#include "sheaf/parallel/dad/dad_plan.hpp"

namespace sheaf::parallel {

// The same on all ranks, which call it together.
LinkModel measure_link(const comm::Group& group, Where where);

}  // namespace sheaf::parallel
