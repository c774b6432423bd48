#pragma once
// Parts of parcels, with the factors of one weight.

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include "sheaf/parallel/dad/factor_parcel.hpp"

namespace sheaf::parallel::test {

// All of a weight of out x in elements.
inline WeightView whole_weight(std::int64_t in, std::int64_t out) {
  return {.in = in, .out = out, .in_stride = 1, .out_stride = in};
}

// All rows of a table of `count` rows.
inline WeightView whole_table(std::int64_t count, std::int64_t width) {
  return {.in = count,
          .out = width,
          .in_stride = width,
          .out_stride = 1,
          .is_lookup = true};
}

inline FactorPart factor_part(const BlockKey& block, const at::Tensor& inputs,
                              const at::Tensor& deltas) {
  FactorPart part;
  part.block = block;
  part.factors = {inputs, deltas};
  return part;
}

// Called on this thread, because its first use of threads would otherwise set
// the number that another rank's thread has set last.
inline void use_threads(int count) {
  at::get_num_threads();
  at::set_num_threads(count);
}

}  // namespace sheaf::parallel::test
