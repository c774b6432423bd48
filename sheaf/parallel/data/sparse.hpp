#pragma once
// Averages of sparse gradients: embeddings whose rows are few.

#include <torch/types.h>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::parallel {

struct SparseAverage {
  at::Tensor gradient;  // coalesced, of the parameter's shape
  int users = 0;        // ranks that used the parameter
  std::int64_t bytes = 0;
};

// Gathers the rows of all ranks' sparse gradients and sums them; `gradient` is
// undefined where a rank has none. That of a rank which has not used the
// parameter since is of an earlier pass, and stands for its part of the
// average of that. All ranks call it.
SparseAverage average_sparse_gradient(const comm::Group& group,
                                      const at::Tensor& gradient, bool is_used,
                                      const at::Tensor& parameter, int divisor);

}  // namespace sheaf::parallel
