#pragma once
// Element-wise reduction of several sources, with the widest vectors that the
// processor has, chosen at run time. Every width gives the same bits.

#include <cstddef>
#include <span>

#include "sheaf/comm/kernels/reduce_op.hpp"

namespace sheaf::comm {

struct Reduction {
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  // The result is divided by this once, after the last source was added.
  // 1 leaves it alone: kAvg then means kSum (a partial sum of an average).
  int divisor = 1;
};

// outputs[k][i] = sources[0][i] op sources[1][i] op ... for every k, taking the
// sources strictly from left to right. f16 and bf16 are accumulated in f32 and
// rounded once. An output may be the very same array as a source (not a
// shifted one). One source is a copy (with the division, if any).
void reduce(const Reduction& how, std::span<const void* const> sources,
            std::span<void* const> outputs, std::size_t count);

// f16 and bf16: whether partial results of a reduction are kept in f32 until
// the rest is added. Not for min and max, which round nothing.
bool has_wide_partials(const Reduction& how);
// As reduce(), for such reductions: the result stays in f32, undivided ...
void reduce_to_partials(const Reduction& how,
                        std::span<const void* const> sources, float* output,
                        std::size_t count);
// ... and becomes one of the type, divided and rounded. `sources` are of f32.
void reduce_partials(const Reduction& how, std::span<const void* const> sources,
                     void* output, std::size_t count);

}  // namespace sheaf::comm
