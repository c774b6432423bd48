#include "sheaf/parallel/precision/precision_casts.hpp"

#include <mutex>
#include <set>
#include <tuple>

namespace sheaf::parallel {
namespace {

bool is_low_tensor(const at::Tensor& tensor) {
  return tensor.defined() && (tensor.scalar_type() == at::kBFloat16 ||
                              tensor.scalar_type() == at::kHalf);
}

at::Tensor first_low(c10::ArrayRef<c10::IValue> arguments) {
  for (const c10::IValue& value : arguments) {
    if (value.isTensor() && is_low_tensor(value.toTensor()))
      return value.toTensor();
    if (value.isTensorList())
      for (const at::Tensor& one : value.toTensorVector())
        if (is_low_tensor(one)) return one;
  }
  return {};
}

// Kernels that were tried and do not exist.
class MissingKernels {
 public:
  using Key = std::tuple<const void*, at::ScalarType, at::DeviceType>;

  bool has(const Key& key) {
    const std::lock_guard lock(mutex_);
    return keys_.contains(key);
  }
  void add(const Key& key) {
    const std::lock_guard lock(mutex_);
    keys_.insert(key);
  }

 private:
  std::mutex mutex_;
  std::set<Key> keys_;
};

MissingKernels& missing_kernels() {
  static MissingKernels kernels;
  return kernels;
}

c10::ArrayRef<c10::IValue> arguments_of(const c10::OperatorHandle& op,
                                        const torch::jit::Stack& stack) {
  return torch::jit::last(stack, op.schema().arguments().size());
}

void cast_and_call(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  cast_low_to_f32(arguments_of(op, stack));
  op.callBoxed(&stack);
}

}  // namespace

bool is_castable(const at::Tensor& tensor) {
  return is_low_tensor(tensor) ||
         (tensor.defined() && tensor.scalar_type() == at::kFloat);
}

void cast_argument(c10::IValue& argument, at::ScalarType type) {
  if (!argument.isTensor()) return;
  const at::Tensor& tensor = argument.toTensor();
  if (is_castable(tensor) && tensor.scalar_type() != type)
    argument = tensor.to(type);
}

void cast_low_to_f32(c10::ArrayRef<c10::IValue> arguments) {
  for (const c10::IValue& one : arguments) {
    // Belongs to the caller's stack.
    auto& value = const_cast<c10::IValue&>(one);
    if (value.isTensor() && is_low_tensor(value.toTensor())) {
      value = value.toTensor().to(at::kFloat);
    } else if (value.isTensorList()) {
      auto list = value.toTensorVector();
      for (at::Tensor& tensor : list)
        if (is_low_tensor(tensor)) tensor = tensor.to(at::kFloat);
      value = list;
    }
  }
}

bool has_low(c10::ArrayRef<c10::IValue> arguments) {
  return first_low(arguments).defined();
}

void call_with_what_is_there(const c10::OperatorHandle& op,
                             torch::jit::Stack& stack) {
  const at::Tensor low = first_low(arguments_of(op, stack));
  // In-place results cannot be computed in another type.
  if (!low.defined() || op.schema().is_mutable()) {
    op.callBoxed(&stack);
    return;
  }
  const MissingKernels::Key key{&op.schema(), low.scalar_type(),
                                low.device().type()};
  if (missing_kernels().has(key)) return cast_and_call(op, stack);
  const auto arguments = arguments_of(op, stack).vec();
  const std::size_t below = stack.size() - arguments.size();
  try {
    op.callBoxed(&stack);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error&) {
    stack.resize(below);
    stack.insert(stack.end(), arguments.begin(), arguments.end());
    try {
      cast_and_call(op, stack);
    } catch (const c10::Error&) {
      // The type was not the cause; the first error is more specific.
      stack.resize(below);
      stack.insert(stack.end(), arguments.begin(), arguments.end());
      op.callBoxed(&stack);
      return;
    }
    missing_kernels().add(key);
  }
}

}  // namespace sheaf::parallel
