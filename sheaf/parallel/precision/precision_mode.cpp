// How a pass intercepts operators: while it exists, a dispatch key that no
// tensor has is enabled for this thread, so that every operator calls
// on_operation() first, as a whole, above autograd. The pass casts the
// arguments and calls the operator again with the key disabled.
//
// Observers (RecordFunction: profilers, traces) would be notified before the
// key's function is called, so that casts would appear as parts of the
// operator. Therefore they are disabled while the pass exists, and enabled
// where it calls operators.
#include "sheaf/parallel/precision/precision_mode.hpp"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/library.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <set>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/parallel/precision/int8_product.hpp"
#include "sheaf/parallel/precision/precision_device.hpp"
#include "sheaf/parallel/precision/precision_rules.hpp"

namespace sheaf::parallel {
namespace {

using plan::Precision;

constexpr auto kModeKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

thread_local PrecisionPass* passing = nullptr;

void on_operation(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
  // Other threads of a backward() that was called within a pass inherit its
  // keys.
  if (passing)
    passing->perform(op, keys, *stack);
  else
    op.redispatchBoxed(keys.remove(kModeKey), stack);
}

// Enables or disables observers while this object exists.
class Telling {
 public:
  explicit Telling(bool is_on)
      : was_on_(at::isRecordFunctionEnabled()), is_on_(is_on) {
    if (is_on_ != was_on_) at::enableRecordFunction(is_on_);
  }
  ~Telling() {
    if (is_on_ != was_on_) at::enableRecordFunction(was_on_);
  }
  Telling(const Telling&) = delete;
  Telling& operator=(const Telling&) = delete;

 private:
  const bool was_on_;
  const bool is_on_;
};

bool is_transposed(const OperatorRule& rule, const c10::IValue* arguments) {
  if (rule.label == "convolution") return arguments[6].toBool();
  return rule.label.rfind("conv_transpose", 0) == 0;
}

// The next sequence number of autograd; -1 if autograd is off.
std::int64_t next_node() {
  return at::GradMode::is_enabled()
             ? static_cast<std::int64_t>(at::sequence_number::peek())
             : -1;
}

at::ScalarType type_of(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return at::kBFloat16;
    case Precision::kF16:
    case Precision::kInt8:
      return at::kHalf;
    default:
      return at::kFloat;
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_operation>());
}

PrecisionPass::PrecisionPass(PrecisionSetting& setting)
    : setting_(setting),
      outer_(passing),
      records_(outer_ ? outer_->records_ : at::isRecordFunctionEnabled()),
      has_gradients_(at::GradMode::is_enabled()),
      exceptions_(std::uncaught_exceptions()),
      included_(kModeKey) {
  setting.names.find_storages();
  if (!outer_) at::enableRecordFunction(false);
  passing = this;
}

PrecisionPass::~PrecisionPass() {
  passing = outer_;
  if (!outer_) at::enableRecordFunction(records_);
  if (!setting_.is_unchecked) return;
  for (const auto& [label, count] : counts_) {
    int& most = setting_.products[label];
    most = std::max(most, count);
  }
  // A pass that was aborted by an exception may not have reached all products.
  setting_.has_trained |=
      has_gradients_ && std::uncaught_exceptions() == exceptions_;
}

void PrecisionPass::perform(const c10::OperatorHandle& op,
                            c10::DispatchKeySet keys,
                            torch::jit::Stack& stack) {
  const OperatorRule& rule = rule_of(op);
  if (rule.kind == OperatorKind::kOpen) return open(op, keys, stack);
  const c10::impl::ExcludeDispatchKeyGuard below(kModeKey);
  const Telling telling(records_ && at::hasCallbacks());
  if (is_in_function()) {
    leave(op, rule, stack);
  } else if (rule.kind == OperatorKind::kProduct) {
    product(op, rule, stack);
  } else {
    if (rule.kind == OperatorKind::kExact ||
        (rule.is_exact_on_cpu && setting_.device.is_cpu()))
      cast_low_to_f32(torch::jit::last(stack, op.schema().arguments().size()));
    call_with_what_is_there(op, stack);
  }
}

// For operators in a custom autograd function: the pass began with gradients
// enabled, and they are off now. The operator runs unchanged, because the
// function's backward() relies on it, except that mixed types are cast to f32.
void PrecisionPass::leave(const c10::OperatorHandle& op,
                          const OperatorRule& rule, torch::jit::Stack& stack) {
  const auto arguments =
      torch::jit::last(stack, op.schema().arguments().size());
  std::set<at::ScalarType> types;
  for (const std::size_t place : rule.factors)
    types.insert(arguments[place].toTensor().scalar_type());
  if (types.size() > 1) cast_low_to_f32(arguments);
  call_with_what_is_there(op, stack);
}

// The operator's parts reach perform() themselves.
void PrecisionPass::open(const c10::OperatorHandle& op,
                         c10::DispatchKeySet keys, torch::jit::Stack& stack) {
  const Telling telling(records_ && at::hasCallbacks());
  at::RecordFunction whole(at::RecordScope::FUNCTION);
  if (whole.isActive()) whole.before(std::cref(op.schema()), next_node());
  const Telling parts(false);
  op.redispatchBoxed(keys.remove(kModeKey), &stack);
}

PrecisionPass::Layer PrecisionPass::layer_of(const OperatorRule& rule,
                                             const c10::IValue* arguments) {
  Layer layer;
  // Starts with the second factor, the usual position of a weight.
  for (std::size_t i = std::min<std::size_t>(2, rule.factors.size());
       i-- > 0;) {
    const std::size_t place = rule.factors[i];
    const auto* name = setting_.names.find(arguments[place].toTensor());
    if (!name) continue;
    layer = {*name, Precision::kF32, place, true};
    break;
  }
  if (!layer.has_weight)
    layer.name = concat(rule.label, "#", counts_[rule.label]++);
  layer.precision = setting_.plan.of(layer.name);
  const Precision wanted = layer.precision;
  layer.precision = granted(rule, arguments, layer);
  if (wanted == Precision::kInt8 && layer.precision != wanted)
    log_once(rule, layer);
  return layer;
}

// A warning only if the layer was meant: a plan for all layers does not aim at
// products of activations.
void PrecisionPass::log_once(const OperatorRule& rule, const Layer& layer) {
  if (!setting_.logged.insert(layer.name).second) return;
  const bool is_meant =
      layer.has_weight || setting_.plan.layers.contains(layer.name);
  const char* const done = plan::to_string(layer.precision);
  log_message(is_meant ? LogLevel::kWarn : LogLevel::kInfo,
              "the plan requests int8 for the layer {}, a {}, which is "
              "computed in {}: int8 supports linear layers, products with a "
              "weight and conv2d without groups",
              fmt::make_format_args(layer.name, rule.label, done));
}

// If a precision is not supported for the kind of layer, returns the closest
// supported one.
Precision PrecisionPass::granted(const OperatorRule& rule,
                                 const c10::IValue* arguments,
                                 const Layer& layer) const {
  for (const std::size_t place : rule.factors)
    if (!is_castable(arguments[place].toTensor())) return Precision::kF32;
  // In libtorch 1.13, oneDNN computes a plain convolution instead of a
  // transposed one in bf16.
  if (setting_.device.is_cpu() && is_transposed(rule, arguments))
    return Precision::kF32;
  if (layer.precision != Precision::kInt8) return layer.precision;
  const bool has_int8 =
      layer.has_weight && can_int8(rule, arguments, layer.weight);
  return has_int8 ? Precision::kInt8 : Precision::kF16;
}

void PrecisionPass::product(const c10::OperatorHandle& op,
                            const OperatorRule& rule,
                            torch::jit::Stack& stack) {
  const std::size_t count = op.schema().arguments().size();
  c10::IValue* arguments = stack.data() + (stack.size() - count);
  const Layer layer = layer_of(rule, arguments);
  at::RecordFunction scope(at::RecordScope::USER_SCOPE);
  if (scope.isActive())
    scope.before(concat("sheaf::layer ", layer.name, " ",
                        plan::to_string(layer.precision)));
  const at::ScalarType type = type_of(layer.precision);
  for (const std::size_t place : rule.factors)
    if (!layer.has_weight || place != layer.weight)
      cast_argument(arguments[place], type);
  if (layer.has_weight) cast_argument(arguments[layer.weight], type);
  for (const std::size_t place : rule.added)
    cast_argument(arguments[place], type);
  multiply(op, rule, layer, stack);
}

void PrecisionPass::multiply(const c10::OperatorHandle& op,
                             const OperatorRule& rule, const Layer& layer,
                             torch::jit::Stack& stack) {
  if (layer.precision == Precision::kInt8)
    return multiply_int8(op, rule, setting_.options, stack);
  const bool is_f32 = type_of(layer.precision) == at::kFloat;
  if (!is_f32 || !setting_.device.is_cuda()) {
    op.callBoxed(&stack);
    return;
  }
  const bool has_tf32 = layer.precision == Precision::kTf32;
  const auto first_node = at::sequence_number::peek();
  {
    const Tf32Flags flags(has_tf32);
    op.callBoxed(&stack);
  }
  if (at::GradMode::is_enabled())
    use_tf32_in_backward(stack.back().toTensor(), first_node, has_tf32);
}

}  // namespace sheaf::parallel
