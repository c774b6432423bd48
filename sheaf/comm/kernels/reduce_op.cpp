#include "sheaf/comm/kernels/reduce_op.hpp"

#include <array>
#include <string>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {
constexpr std::array<std::string_view, kReduceOpCount> kReduceOpNames{
    "sum", "avg", "product", "min", "max", "band", "bor", "bxor"};
}

std::string_view name_of(ReduceOp op) noexcept {
  return kReduceOpNames[static_cast<std::size_t>(op)];
}

ReduceOp parse_reduce_op(std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < kReduceOpNames.size(); ++i) {
    if (kReduceOpNames[i] == name) return static_cast<ReduceOp>(i);
    known += (i ? ", " : "") + std::string(kReduceOpNames[i]);
  }
  throw UsageError(
      concat("unknown reduction '", name, "'; use one of ", known));
}

bool is_defined(ReduceOp op, DType dtype) noexcept {
  if (op == ReduceOp::kAvg) return dtype != DType::kBool;
  if (op >= ReduceOp::kBitAnd) return !is_float(dtype);
  return true;
}

}  // namespace sheaf::comm
