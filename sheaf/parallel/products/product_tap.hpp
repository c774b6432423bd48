#pragma once
// Takes the delta of a product from backward(), which then does not compute the
// gradient of the product's weight.

#include <torch/csrc/autograd/edge.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

#include "sheaf/parallel/products/delta_chain.hpp"
#include "sheaf/parallel/products/products.hpp"

namespace sheaf::parallel {

// Exists as long as the product's graph. Active in each backward() that
// accumulates gradients; does not affect autograd::grad().
class ProductTap {
 public:
  struct Handlers {
    // Called in each backward(); if false, the gradient is left to backward().
    std::function<bool()> takes;
    // The gradient of the product's result, after all user hooks.
    std::function<void(const at::Tensor&)> on_gradient;
    // Called when the graph is released.
    std::function<void()> on_end;
  };
  // Adds the hooks to the product's node.
  static std::shared_ptr<ProductTap> attach(const Product& product,
                                            Handlers handlers);
  ~ProductTap();
  ProductTap(const ProductTap&) = delete;
  ProductTap& operator=(const ProductTap&) = delete;

  // Sets the chain of which the product is the lower end, or the upper end.
  void end(std::shared_ptr<DeltaChain> chain) { from_above_ = chain; }
  void begin(std::shared_ptr<DeltaChain> chain) { to_below_ = chain; }

  // Called by the node's hooks, before and after its computation.
  void before(const at::Tensor& gradient);
  void after(const std::vector<at::Tensor>& outputs,
             const at::Tensor& gradient);

 private:
  class Cut;
  ProductTap(const Product& product, Handlers handlers);

  torch::autograd::Node* node_;     // owns the hooks, which own this object
  std::vector<std::size_t> edges_;  // of weight and bias
  std::size_t input_edge_;
  Handlers handlers_;
  std::weak_ptr<Cut> cut_;  // exists during the node's computation
  std::shared_ptr<DeltaChain> from_above_;
  std::shared_ptr<DeltaChain> to_below_;
};

}  // namespace sheaf::parallel
