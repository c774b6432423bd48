#pragma once
// Reductions and the element types for which they are defined.

#include <cstdint>
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

}  // namespace sheaf::comm
