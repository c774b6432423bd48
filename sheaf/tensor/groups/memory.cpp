#include "sheaf/tensor/groups/memory.hpp"

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

at::Tensor empty_shared(const comm::Group& group, at::IntArrayRef sizes,
                        at::ScalarType type) {
  const auto count = static_cast<std::size_t>(c10::multiply_integers(sizes));
  const std::size_t bytes = count * size_of(dtype_of(type));
  // Empty tensors get one byte, so that they have an address.
  auto memory = group.allocate_bytes(std::max<std::size_t>(bytes, 1));
  std::byte* data = memory.get();
  return at::from_blob(
      data, sizes,
      [memory = std::move(memory)](void*) mutable { memory.reset(); },
      at::TensorOptions(type));
}

comm::Buffer buffer_of(const at::Tensor& tensor) {
  SHEAF_ASSERT(tensor.is_contiguous() && tensor.device().is_cpu(),
               describe(tensor));
  return {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()),
          dtype_of(tensor.scalar_type())};
}

at::Tensor staged(const at::Tensor& tensor, bool with_content) {
  SHEAF_CHECK(tensor.defined(),
              "undefined tensor; pass a tensor of the expected shape");
  SHEAF_CHECK(tensor.layout() == at::kStrided, "tensor of layout ",
              tensor.layout(),
              "; only dense tensors can be exchanged: call to_dense()");
  // With the negative bit set, memory holds the negated values.
  if (tensor.device().is_cpu() && tensor.is_contiguous() && !tensor.is_neg())
    return tensor.detach();
  const auto options = at::TensorOptions(tensor.scalar_type())
                           .pinned_memory(tensor.device().is_cuda());
  const at::Tensor memory = at::empty(tensor.sizes(), options);
  if (with_content) memory.copy_(tensor.detach());
  return memory;
}

void unstage(const at::Tensor& stand_in, const at::Tensor& tensor) {
  if (tensor.is_alias_of(stand_in)) {
    // So that autograd detects writes to tensors that it has saved.
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
    return;
  }
  const at::NoGradGuard no_grad;
  tensor.detach().copy_(stand_in);
}

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined()) return signature(tensor);
  return concat(signature(tensor), " ", tensor.device());
}

std::string signature(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return concat(c10::toString(tensor.scalar_type()), " ", tensor.sizes());
}

}  // namespace sheaf::tensor
