#pragma once
// Detects whether the gradient that reaches a layer is exactly the one that the
// layer above it has sent.
//
// In this case all ranks can compute it from that layer's deltas and weight,
// and it need not be exchanged (edad). A loss that uses a hidden tensor adds to
// the gradient on its way, and a hook may replace it. Both produce a different
// tensor from the one that left the layer above, or change it in place.
// Therefore the tensors that backward() passes on are compared by identity and
// version, not by value.

#include <torch/types.h>

#include <cstdint>
#include <memory>

#include "sheaf/parallel/products/graph.hpp"

namespace sheaf::parallel {

// The path from one call of a layer, through an element-wise function, to one
// call of the layer below it. Used by the thread that runs backward().
class DeltaChain {
 public:
  // Called when a gradient leaves the layer above.
  void start(const at::Tensor& gradient);
  // Called when the gradient passes the function on the path.
  void pass(const at::Tensor& in, const at::Tensor& out);
  // Called when a gradient reaches the layer below.
  void arrive(const at::Tensor& gradient);

  // `above` and `below` are the numbers of gradients of both layers. Returns
  // whether all of them took this path and no other.
  bool holds(std::int64_t above, std::int64_t below) const {
    return is_whole_ && above == started_ && below == arrived_ &&
           started_ == arrived_;
  }

 private:
  void hold(const at::Tensor& gradient);
  void check(const at::Tensor& gradient);

  // Held, so that autograd does not add to it in place.
  at::Tensor passing_;
  std::uint32_t version_ = 0;
  std::int64_t started_ = 0;
  std::int64_t arrived_ = 0;
  bool is_whole_ = true;
};

// Reports the gradients that enter and leave the function's node to the chain.
void watch_function(torch::autograd::Node& node,
                    const std::shared_ptr<DeltaChain>& chain);

}  // namespace sheaf::parallel
