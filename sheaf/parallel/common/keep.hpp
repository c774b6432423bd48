#pragma once
// Passes any value from an autograd function's forward() to its backward().

#include "sheaf/tensor/groups/keep.hpp"

namespace sheaf::parallel {

using tensor::keep;
using tensor::kept;

}  // namespace sheaf::parallel
