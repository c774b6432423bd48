#pragma once
// Finds deltas that need not be sent, because all ranks can derive them from
// those of the layer above (edad).

#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

#include "sheaf/parallel/dad/waiting_rows.hpp"
#include "sheaf/parallel/products/graph.hpp"
#include "sheaf/parallel/products/product_tap.hpp"

namespace sheaf::parallel {

// A product of a forward(). Keeps its graph alive, whose release may call the
// hooks of products.
struct SeenProduct {
  LayerNodes nodes;
  std::size_t weight = 0;
  WaitingBlock* block = nullptr;
  std::shared_ptr<ProductTap> tap;
};

// Sets the sources of the products' blocks, and connects the taps of both
// products with a chain that detects whether backward() changes the gradient
// on its way. `can_derive(above, below)`: whether the deltas of the weight
// `below` may be derived from those of `above`.
void find_delta_sources(
    const std::vector<SeenProduct>& seen,
    const std::vector<at::Tensor*>& outputs,
    const std::function<bool(std::size_t, std::size_t)>& can_derive);

}  // namespace sheaf::parallel
