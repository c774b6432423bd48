#pragma once
// A collective as a linear map that autograd records, for differentiable.hpp.

#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/tensor/groups/collectives.hpp"

namespace sheaf::tensor::differentiable {

using ElementCounts = std::vector<std::int64_t>;

enum class Kind {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kGather,
  kScatter,
  kAllToAll
};

struct LinearMap {
  Kind kind;
  Group group;
  // The operation kAvg divides the results of copying kinds, too: the adjoint
  // of an average is a copy divided by the number of ranks.
  CollectiveOptions options;
  std::string name;
  std::int64_t own_count = 0;  // elements of this rank's part
  // Elements of each rank's part, or for all_to_all those sent to each rank.
  // Known to the root only for scatter and its adjoint.
  ElementCounts counts = {};
  ElementCounts received = {};  // all_to_all: elements from each rank
  bool is_backward = false;     // this is the adjoint of an earlier call
  // The input requires no gradient, but that of another rank does: a leaf
  // replaces it, so that this rank takes part in the backward pass.
  bool has_substitute = false;

  bool is_root() const { return group.rank() == options.root; }
};

// The map's result for this rank, from its flattened input. All ranks call it
// with their parts of the same map; otherwise they get MismatchError.
at::Tensor apply(LinearMap map, at::Tensor flat);

std::int64_t total(const ElementCounts& counts);
// Cuts a flat tensor into one part per rank; none if there are no counts.
Tensors parts(const at::Tensor& flat, const ElementCounts& counts);

}  // namespace sheaf::tensor::differentiable
