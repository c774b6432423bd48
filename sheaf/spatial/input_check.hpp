#pragma once
// Whether the ranks of a grid were given the same images.

#include <torch/types.h>

#include <string>
#include <vector>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::spatial {

struct InputCheck {
  const comm::Group& grid;  // its ranks
  int first_rank = 0;       // of the grid, in the group of all
  std::string advice = {};  // what to do about differences
};

// Compares type, sizes and bytes of whole tensors, and type and sizes of split
// ones, of which each rank has another part. UsageError on all ranks of the
// grid, which names those that differ from its first rank. All of them call it.
void check_same_inputs(const InputCheck& check,
                       const std::vector<at::Tensor>& inputs);

}  // namespace sheaf::spatial
