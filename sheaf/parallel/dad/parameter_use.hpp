#pragma once
// How the first forward() has used the parameters.

#include <torch/types.h>

#include <string>
#include <vector>

#include "sheaf/parallel/data/reducer.hpp"
#include "sheaf/parallel/products/products.hpp"
#include "sheaf/plan/format/parcel_rules.hpp"

namespace sheaf::parallel {

// How a parameter was used in a pass, over all ranks.
struct ParameterUse {
  std::string name;
  std::int64_t elements = 0;
  std::int64_t width = 4;  // bytes per element
  // Of its products, over all ranks; 0: not used in a product.
  std::int64_t rows = 0;
  std::int64_t calls = 0;  // number of products, on the rank with the most
  std::int64_t in = 0;     // of the largest product
  std::int64_t out = 0;
  std::int64_t order = 0;  // in forward()
  bool is_lookup = false;
  bool has_other_use = false;  // used outside of products
  bool takes_data = false;     // its input is not the output of a layer
  double density = 1;          // fraction of nonzero input elements
  // The weight of the layer from whose deltas this one's can be derived; -1:
  // none.
  std::int64_t above = -1;
  std::vector<std::size_t> biases;  // added to its products
};

// The products of a weight on one of `ranks` ranks with equal numbers of rows.
plan::FactorShape shape_of(const ParameterUse& use, int ranks);

// The uses on this rank, by parameter.
std::vector<ParameterUse> find_uses(
    const std::vector<TrainedParameter>& parameters,
    const std::vector<Product>& products,
    const std::vector<at::Tensor*>& outputs);

// Combines the uses of all ranks; returns the same on all ranks. All ranks must
// call it.
std::vector<ParameterUse> share_uses(const comm::Group& group,
                                     const std::vector<ParameterUse>& mine);

}  // namespace sheaf::parallel
