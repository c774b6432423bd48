// Operations that compute each element from the elements at the same position.

#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/spatial/split/dispatch.hpp"
#include "sheaf/spatial/split/halo_autograd.hpp"

namespace sheaf::spatial {
namespace {

// The argument with the most axes determines how the result is cut.
at::Tensor widest_split(Call& call) {
  at::Tensor widest = first_split(call);
  for (std::size_t i = 0; i < call.count(); ++i)
    if (const at::Tensor given = call.tensor(i);
        is_split(given) && given.dim() > widest.dim())
      widest = given;
  return widest;
}

void check_flat(Call& call, const at::Tensor& given, int flat) {
  if (is_split(given) ? flat_from(given) != flat
                      : flat >= 0 && given.defined() && given.numel() != 1)
    call.refuse("one of its tensors is flattened, another is not");
}

// where() of a condition alone returns a list of indices.
void check_returns(Call& call) {
  for (const c10::Argument& one : call.op().schema().returns())
    if (one.type()->kind() != c10::TypeKind::TensorType)
      call.refuse("it is not supported with these arguments");
}

// Whether the result may have another memory order: the requested one, or that
// of an argument.
bool may_give_reordered(Call& call) {
  bool may = false;
  for (std::size_t i = 0; i < call.count(); ++i) {
    if (call[i].isTensor() && may_be_reordered(call.tensor(i))) may = true;
    if (call.op().schema().arguments()[i].name() == "memory_format" &&
        call[i].isInt()) {
      const at::MemoryFormat format = call[i].toMemoryFormat();
      if (format == at::MemoryFormat::Contiguous) return false;
      if (format != at::MemoryFormat::Preserve) return true;
    }
  }
  return may;
}

void pointwise(Call& call) {
  check_returns(call);
  const at::Tensor widest = widest_split(call);
  Split split = split_of(widest);
  split.may_be_reordered = may_give_reordered(call);
  const int flat = flat_from(widest);
  const at::Tensor self = call.tensor(0);
  const auto& alias = call.op().schema().arguments()[0].alias_info();
  const bool is_in_place = alias && alias->isWrite();
  if (is_in_place && (!is_split(self) || !(split_of(self) == split)))
    call.refuse("its result cannot be stored in a tensor cut like that");
  for (std::size_t i = 0; i < call.count(); ++i) {
    if (!call[i].isTensor()) continue;
    const at::Tensor given = call.tensor(i);
    check_flat(call, given, flat);
    call[i] = part_like(call, given, split);
  }
  call.compute();
  for (std::size_t i = 0; i < call.op().schema().returns().size(); ++i) {
    if (is_in_place && i == 0) {
      call.result(0) = self;
      continue;
    }
    const at::Tensor local = call.result(i).toTensor();
    call.result(i) = make_split(local, split_like(split, local), flat);
  }
}

void same_memory(Call& call) {
  const bool has_gaps = may_have_gaps(call.tensor(0));
  pointwise(call);
  if (has_gaps) set_gaps(call.result(0).toTensor());
}

// One factor per channel (axis 1), or one for all. Newer versions of libtorch
// decompose it into _prelu_kernel.
void prelu(Call& call) {
  const at::Tensor given = call.tensor(0), weight = call.tensor(1);
  if (!is_split(given) || is_split(weight))
    call.refuse("its weight is split, or its input is not");
  const Split& split = split_of(given);
  if (weight.numel() > 1 && split.is_cut(1))
    call.refuse("the channels are cut");
  const at::Tensor& local = local_of(given);
  call.give(make_split(split.has_nothing()
                           ? nothing_from({local, weight}, split.local_sizes())
                           : at::prelu(local, weight),
                       split));
}

constexpr const char* kNames[] = {
    "abs",
    "abs_",
    "neg",
    "neg_",
    "exp",
    "exp_",
    "log",
    "log_",
    "log1p",
    "expm1",
    "sqrt",
    "sqrt_",
    "rsqrt",
    "rsqrt_",
    "reciprocal",
    "sign",
    "sin",
    "cos",
    "tan",
    "atan",
    "erf",
    "square",
    "floor",
    "ceil",
    "round",
    "relu",
    "relu_",
    "leaky_relu",
    "leaky_relu_",
    "elu",
    "elu_",
    "gelu",
    "silu",
    "silu_",
    "mish",
    "mish_",
    "softplus",
    "sigmoid",
    "sigmoid_",
    "tanh",
    "tanh_",
    "hardtanh",
    "hardtanh_",
    "hardsigmoid",
    "hardswish",
    "hardswish_",
    "log_sigmoid_forward",
    "threshold",
    "threshold_",
    "clamp",
    "clamp_",
    "clamp_min",
    "clamp_min_",
    "clamp_max",
    "clamp_max_",
    "add",
    "add_",
    "sub",
    "sub_",
    "rsub",
    "mul",
    "mul_",
    "div",
    "div_",
    "pow",
    "pow_",
    "addcmul",
    "addcmul_",
    "addcdiv",
    "addcdiv_",
    "lerp",
    "lerp_",
    "maximum",
    "minimum",
    "fmod",
    "remainder",
    "atan2",
    "where",
    "masked_fill",
    "masked_fill_",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_not",
    "bitwise_and",
    "bitwise_or",
    "bitwise_not",
    "isnan",
    "isfinite",
    "isinf",
    "_to_copy",
    "contiguous",
    "zeros_like",
    "ones_like",
    "full_like",
    "empty_like",
    "zero_",
    "fill_",
    "copy_",
    "nan_to_num",
    "logit",
    "xlogy",
    "_prelu_kernel",
};

}  // namespace

void add_pointwise_operations(Operations& table) {
  for (const char* name : kNames)
    table.emplace(concat("aten::", name), Rule{pointwise, Flat::kTaken});
  table.emplace("aten::clone", Rule{pointwise, Flat::kTaken});
  table.emplace("aten::detach", Rule{same_memory, Flat::kTaken});
  table.emplace("aten::alias", Rule{same_memory, Flat::kTaken});
  table.emplace("aten::prelu", prelu);
}

}  // namespace sheaf::spatial
