#pragma once
// Whether the gradient that reaches a layer is the one that the layer above it
// has sent, and nothing else.
//
// Then all ranks can compute it from that layer's deltas and weight, and it
// need not be exchanged (edad). A loss that uses a hidden tensor adds to the
// gradient on its way, and a hook may replace it. Both give another tensor than
// the one that left the layer above, or change it in place, so the tensors that
// backward() passes on are compared by identity and version: no values are.

#include <torch/types.h>

#include <cstdint>
#include <memory>

#include "sheaf/parallel/dad/graph.hpp"

namespace sheaf::parallel {

// The path from one call of a layer, through a function of each element, to
// one call of the layer below it. Used by the thread that runs backward().
class DeltaChain {
 public:
  // A gradient leaves the layer above.
  void start(const at::Tensor& gradient);
  // It goes through the function on the path.
  void pass(const at::Tensor& in, const at::Tensor& out);
  // A gradient reaches the layer below.
  void arrive(const at::Tensor& gradient);

  // Whether the gradients of both layers, of which these are the numbers, all
  // went this path and no other.
  bool holds(std::int64_t above, std::int64_t below) const {
    return is_whole_ && above == started_ && below == arrived_ &&
           started_ == arrived_;
  }

 private:
  void hold(const at::Tensor& gradient);
  void check(const at::Tensor& gradient);

  // Held, so that nothing is added to it in place.
  at::Tensor passing_;
  std::uint32_t version_ = 0;
  std::int64_t started_ = 0;
  std::int64_t arrived_ = 0;
  bool is_whole_ = true;
};

// Lets the chain see what enters and leaves the function's node.
void watch_function(torch::autograd::Node& node,
                    const std::shared_ptr<DeltaChain>& chain);

}  // namespace sheaf::parallel
