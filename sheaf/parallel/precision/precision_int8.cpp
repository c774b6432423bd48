// The operators of a precision pass that are computed in int8.
#include <ATen/Functions.h>

#include <array>
#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/precision/cast_kernels.hpp"
#include "sheaf/parallel/precision/int8_product.hpp"

namespace sheaf::parallel {
namespace {

// Compute capability that the int8 product needs.
constexpr int kLeastCapability = 75;

bool is_scalar_one(const c10::IValue& value) {
  return value.isScalar() && value.toScalar().toDouble() == 1;
}

// A list of one element applies to both axes.
std::optional<std::array<std::int64_t, 2>> pair_of(const c10::IValue& value) {
  if (!value.isIntList()) return {};
  const auto list = value.toIntVector();
  if (list.size() == 1) return {{list[0], list[0]}};
  if (list.size() == 2) return {{list[0], list[1]}};
  return {};
}

std::optional<ConvGeometry> geometry_of(const c10::IValue* arguments) {
  const auto stride = pair_of(arguments[3]);
  const auto padding = pair_of(arguments[4]);
  const auto dilation = pair_of(arguments[5]);
  if (!stride || !padding || !dilation) return {};
  return ConvGeometry{*stride, *padding, *dilation};
}

bool can_convolve(const c10::IValue* arguments) {
  const at::Tensor& x = arguments[0].toTensor();
  const at::Tensor& weight = arguments[1].toTensor();
  if (x.dim() != 4 || weight.dim() != 4 || !arguments[6].isInt() ||
      arguments[6].toInt() != 1 || x.size(1) != weight.size(1))
    return false;
  const auto geometry = geometry_of(arguments);
  // Kernels use 32-bit indices.
  return geometry &&
         unfolded_elements(x, weight, *geometry) < (std::int64_t{1} << 30);
}

bool can_add(const c10::IValue* arguments, std::int64_t outputs) {
  const at::Tensor& bias = arguments[0].toTensor();
  return bias.dim() == 1 && bias.size(0) == outputs &&
         is_scalar_one(arguments[3]) && is_scalar_one(arguments[4]);
}

at::Tensor bias_in(const c10::IValue& value) {
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

at::Tensor result_of(const OperatorRule& rule, const c10::IValue* arguments,
                     bool by_channel) {
  const at::Tensor& first = arguments[0].toTensor();
  const at::Tensor& second = arguments[1].toTensor();
  if (rule.label == "conv2d")
    return int8_conv2d(first, second, bias_in(arguments[2]),
                       *geometry_of(arguments), by_channel);
  if (rule.label == "linear")
    return int8_linear(first, second, bias_in(arguments[2]), by_channel);
  if (rule.label == "addmm")
    return int8_linear(second, arguments[2].toTensor().t(), first, by_channel);
  return int8_linear(first, second.t(), {}, by_channel);
}

}  // namespace

std::string why_no_int8(const c10::Device& device) {
  if (!cast_kernels::are_built())
    return "Sheaf was built without its CUDA kernels, which int8 needs; build "
           "it with nvcc, or use f16";
  if (!has_integer_product())
    return "this libtorch has no int8 matrix product; use version 2.1 or "
           "newer, or f16";
  const int index = device.has_index() ? device.index() : 0;
  const int capability = cast_kernels::capability(index);
  if (capability < kLeastCapability)
    return concat("the device has compute capability ", capability / 10, ".",
                  capability % 10, ", but int8 needs 7.5; use f16");
  return "";
}

bool can_int8(const OperatorRule& rule, const c10::IValue* arguments,
              std::size_t weight) {
  const at::Tensor& tensor = arguments[weight].toTensor();
  const at::Tensor& x = arguments[rule.factors[0]].toTensor();
  if (weight != rule.factors[1] || tensor.numel() == 0 || x.numel() == 0)
    return false;
  if (rule.label == "conv2d") return can_convolve(arguments);
  if (tensor.dim() != 2 || x.dim() < 2) return false;
  if (rule.label == "addmm") return can_add(arguments, tensor.size(1));
  return rule.label == "linear" || rule.label == "mm" || rule.label == "matmul";
}

void multiply_int8(const c10::OperatorHandle& op, const OperatorRule& rule,
                   const MixedPrecisionOptions& options,
                   torch::jit::Stack& stack) {
  const std::size_t count = op.schema().arguments().size();
  at::Tensor result = result_of(rule, stack.data() + (stack.size() - count),
                                options.scales_by_channel);
  torch::jit::drop(stack, count);
  torch::jit::push(stack, std::move(result));
}

}  // namespace sheaf::parallel
