#pragma once
// Takes the delta of a product from backward(), which then computes no gradient
// of the product's weight.

#include <torch/csrc/autograd/edge.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

#include "sheaf/parallel/dad/delta_chain.hpp"
#include "sheaf/parallel/dad/products.hpp"

namespace sheaf::parallel {

// Lives as long as the product's graph. It acts in each backward() that
// accumulates gradients, and leaves autograd::grad() alone.
class ProductTap {
 public:
  struct Handlers {
    // Asked in each backward(): false leaves the gradient to it.
    std::function<bool()> takes;
    // The gradient of the product's result, after all hooks of the user.
    std::function<void(const at::Tensor&)> on_gradient;
    // The graph is gone.
    std::function<void()> on_end;
  };
  // Adds it to the product's node.
  static std::shared_ptr<ProductTap> attach(const Product& product,
                                            Handlers handlers);
  ~ProductTap();
  ProductTap(const ProductTap&) = delete;
  ProductTap& operator=(const ProductTap&) = delete;

  // Chains of which the product is the lower or an upper end.
  void end(std::shared_ptr<DeltaChain> chain) { from_above_ = chain; }
  void begin(std::shared_ptr<DeltaChain> chain) { to_below_ = chain; }

  // For the node's hooks, around its computation.
  void before(const at::Tensor& gradient);
  void after(const std::vector<at::Tensor>& outputs,
             const at::Tensor& gradient);

 private:
  class Cut;
  ProductTap(const Product& product, Handlers handlers);

  torch::autograd::Node* node_;     // which owns the hooks that own this
  std::vector<std::size_t> edges_;  // to weight and bias
  std::size_t input_edge_;
  Handlers handlers_;
  std::weak_ptr<Cut> cut_;  // around the node's computation
  std::shared_ptr<DeltaChain> from_above_;
  std::shared_ptr<DeltaChain> to_below_;
};

}  // namespace sheaf::parallel
