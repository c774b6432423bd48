#pragma once
// Checks that all ranks of a grid were given the same images.

#include <torch/types.h>

#include <string>
#include <vector>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::spatial {

struct InputCheck {
  const comm::Group& grid;  // the ranks of the grid
  int first_rank = 0;       // rank of the grid's first rank in the whole group
  std::string advice = {};  // how to fix differences
};

// Compares type, sizes and bytes of whole tensors, and type and sizes of split
// tensors, of which each rank has a different part. Throws UsageError on all
// ranks of the grid; the message lists the ranks that differ from the first
// one. All ranks of the grid must call it.
void check_same_inputs(const InputCheck& check,
                       const std::vector<at::Tensor>& inputs);

}  // namespace sheaf::spatial
