#pragma once
// Element-wise reduction of several sources, with the widest vector
// instructions of the processor, selected at run time. The result does not
// depend on the width, bit for bit. Also the list of reductions, and the
// element types for which they are defined.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sheaf/base/dtype.hpp"

namespace sheaf::comm {

// kAvg is the sum divided once, at the end, by the number of ranks; integers
// round toward zero. For bool, sum and max are "or", product and min are "and",
// and kAvg is not defined. The bitwise operations are defined for integers and
// bool only. kMin and kMax return NaN if an input is NaN.
enum class ReduceOp : std::uint8_t {
  kSum,
  kAvg,
  kProduct,
  kMin,
  kMax,
  kBitAnd,
  kBitOr,
  kBitXor
};
inline constexpr int kReduceOpCount = 8;

std::string_view name_of(ReduceOp op) noexcept;  // "sum", "avg", "band" ...
ReduceOp parse_reduce_op(std::string_view name);
bool is_defined(ReduceOp op, DType dtype) noexcept;

struct Reduction {
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  // The result is divided by this value once, after the last source was added.
  // With 1, kAvg is the same as kSum (a partial sum of an average).
  int divisor = 1;
};

// outputs[k][i] = sources[0][i] op sources[1][i] op ... for every k, evaluated
// strictly from left to right. f16 and bf16 are accumulated in f32 and rounded
// once. An output may be the same array as a source, but must not overlap it
// otherwise. A single source is copied (and divided, if requested). Throws
// UsageError if the reduction is not defined for the element type.
void reduce(const Reduction& how, std::span<const void* const> sources,
            std::span<void* const> outputs, std::size_t count);

// Whether partial results are kept in f32 until all sources are added: for sum,
// average and product of f16 and bf16. Minimum and maximum do not round.
bool has_wide_partials(const Reduction& how);
// Same as reduce(), if has_wide_partials(): the result stays in f32 and is not
// divided.
void reduce_to_partials(const Reduction& how,
                        std::span<const void* const> sources, float* output,
                        std::size_t count);
// Reduces such f32 results, divides, and rounds to the element type.
void reduce_partials(const Reduction& how, std::span<const void* const> sources,
                     void* output, std::size_t count);

}  // namespace sheaf::comm
