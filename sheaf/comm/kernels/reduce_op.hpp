#pragma once
// Reductions, and what each means for each element type.

#include <cstdint>
#include <string_view>

#include "sheaf/base/dtype.hpp"

namespace sheaf::comm {

// kAvg is the sum divided once, at the end, by the number of ranks; integers
// divide towards zero. For bool, sum and max mean "or", product and min "and";
// bool has no kAvg, and only integers and bool have the bitwise operations.
// min and max of a NaN are NaN.
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

}  // namespace sheaf::comm
