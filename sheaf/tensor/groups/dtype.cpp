#include "sheaf/tensor/groups/dtype.hpp"

#include <array>
#include <utility>

#include "sheaf/base/error.hpp"

namespace sheaf::tensor {
namespace {

constexpr std::array<std::pair<at::ScalarType, DType>, kDTypeCount> kTypes{{
    {at::kDouble, DType::kF64},
    {at::kFloat, DType::kF32},
    {at::kHalf, DType::kF16},
    {at::kBFloat16, DType::kBF16},
    {at::kLong, DType::kI64},
    {at::kInt, DType::kI32},
    {at::kShort, DType::kI16},
    {at::kChar, DType::kI8},
    {at::kByte, DType::kU8},
    {at::kBool, DType::kBool},
}};

}  // namespace

DType dtype_of(at::ScalarType type) {
  for (const auto& [torch_type, dtype] : kTypes)
    if (torch_type == type) return dtype;
  throw UsageError(concat("tensors of type ", c10::toString(type),
                          " cannot be exchanged; convert them first, complex "
                          "ones with torch::view_as_real"));
}

at::ScalarType scalar_type_of(DType dtype) {
  return kTypes[static_cast<std::size_t>(dtype)].first;
}

}  // namespace sheaf::tensor
