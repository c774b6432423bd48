#pragma once
// Averages sparse gradients, such as those of embeddings that use few rows.

#include <torch/types.h>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::parallel {

struct SparseAverage {
  at::Tensor gradient;  // coalesced, of the parameter's shape
  int users = 0;        // ranks that used the parameter
  std::int64_t bytes = 0;
};

// Gathers the rows of all ranks' sparse gradients and sums them. `gradient` is
// undefined on a rank without one. On a rank that has not used the parameter in
// this pass, it is the average of an earlier pass and counts as the rank's
// contribution. All ranks must call it.
SparseAverage average_sparse_gradient(const comm::Group& group,
                                      const at::Tensor& gradient, bool is_used,
                                      const at::Tensor& parameter, int divisor);

}  // namespace sheaf::parallel
