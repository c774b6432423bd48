#pragma once
// What the first forward() has used the parameters for.

#include <torch/types.h>

#include <string>
#include <vector>

#include "sheaf/parallel/dad/products.hpp"
#include "sheaf/parallel/data/reducer.hpp"

namespace sheaf::parallel {

// How a parameter was used in a pass, over all ranks.
struct ParameterUse {
  std::string name;
  std::int64_t elements = 0;
  std::int64_t width = 4;  // bytes of an element
  std::int64_t rows = 0;   // of its products, of all ranks; 0: it had none
  std::int64_t calls = 0;  // products, on the rank with most
  std::int64_t in = 0;     // of the largest product
  std::int64_t out = 0;
  std::int64_t order = 0;  // in forward()
  bool is_lookup = false;
  bool has_other_use = false;  // than in products
  bool takes_data = false;     // inputs that no layer has made
  double density = 1;          // of the inputs: the part that is not zero
  // The weight of the layer whose deltas give this one's; -1: none does.
  std::int64_t above = -1;
  std::vector<std::size_t> biases;  // that are added to its products
};

// Of this rank, by parameter.
std::vector<ParameterUse> find_uses(
    const std::vector<TrainedParameter>& parameters,
    const std::vector<Product>& products,
    const std::vector<at::Tensor*>& outputs);

// Of all ranks, which call it together; the same on all.
std::vector<ParameterUse> share_uses(const comm::Group& group,
                                     const std::vector<ParameterUse>& mine);

}  // namespace sheaf::parallel
