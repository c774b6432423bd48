#pragma once
// Products that are recorded while a test computes them.

#include <torch/torch.h>

#include <functional>
#include <utility>
#include <vector>

#include "sheaf/parallel/products/products.hpp"

namespace sheaf::parallel::test {

inline std::vector<Product> seen_in(const std::vector<at::Tensor>& parameters,
                                    const std::function<void()>& action) {
  std::vector<Product> seen;
  ProductWatch watch(parameters,
                     [&](Product one) { seen.push_back(std::move(one)); });
  watch.start();
  action();
  watch.stop();
  return seen;
}

inline at::Tensor random_weight(std::int64_t out, std::int64_t in) {
  return at::rand({out, in}).set_requires_grad(true);
}

}  // namespace sheaf::parallel::test
