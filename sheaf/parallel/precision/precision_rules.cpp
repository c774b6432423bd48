#include "sheaf/parallel/precision/precision_rules.hpp"

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace sheaf::parallel {
namespace {

struct ProductArguments {
  std::vector<std::size_t> factors;
  std::vector<std::size_t> added;
};

using Products = std::map<std::string, ProductArguments, std::less<>>;

const Products& products() {
  static const Products table = [] {
    Products all;
    for (const char* name :
         {"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
          "conv_transpose3d", "convolution", "linear"})
      all[name] = {{0, 1}, {2}};
    for (const char* name : {"mm", "matmul", "bmm", "mv"})
      all[name] = {{0, 1}, {}};
    for (const char* name : {"addmm", "baddbmm", "addbmm", "addmv"})
      all[name] = {{1, 2}, {0}};
    for (const char* name :
         {"scaled_dot_product_attention", "_scaled_dot_product_attention"})
      all[name] = {{0, 1, 2}, {3}};
    return all;
  }();
  return table;
}

// Sums of many numbers, and layers that libtorch computes as one operator.
const std::set<std::string, std::less<>>& exact_operators() {
  static const std::set<std::string, std::less<>> names = {
      "softmax",
      "_softmax",
      "log_softmax",
      "_log_softmax",
      "layer_norm",
      "native_layer_norm",
      "group_norm",
      "native_group_norm",
      "cross_entropy",
      "cross_entropy_loss",
      "nll_loss",
      "nll_loss_nd",
      "nll_loss_forward",
      "nll_loss2d",
      "nll_loss2d_forward",
      "mse_loss",
      "l1_loss",
      "smooth_l1_loss",
      "huber_loss",
      "binary_cross_entropy",
      "binary_cross_entropy_with_logits",
      "kl_div",
      "soft_margin_loss",
      "margin_ranking_loss",
      "hinge_embedding_loss",
      "cosine_embedding_loss",
      "triplet_margin_loss",
      "multi_margin_loss",
      "multilabel_margin_loss",
      "multilabel_margin_loss_forward",
      "poisson_nll_loss",
      "ctc_loss",
      "_ctc_loss",
      "cdist",
      "lstm",
      "gru",
      "rnn_tanh",
      "rnn_relu",
      "lstm_cell",
      "gru_cell",
      "rnn_tanh_cell",
      "rnn_relu_cell",
      "bilinear"};
  return names;
}

bool may_hold_products(std::string_view label) {
  for (const char* name :
       {"einsum", "tensordot", "inner", "chain_matmul", "linalg_multi_dot"})
    if (label == name) return true;
  return false;
}

OperatorRule make_rule(const c10::OperatorHandle& op) {
  const std::string name = op.schema().name();
  const std::string_view whole = "aten::";
  const bool is_torchs = name.rfind(whole, 0) == 0;
  OperatorRule rule;
  rule.label = is_torchs ? name.substr(whole.size()) : name;
  const bool is_composite =
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  // Operators that write into an existing tensor keep its type.
  if (op.schema().is_mutable()) return rule;
  if (is_composite && (!is_torchs || may_hold_products(rule.label)))
    rule.kind = OperatorKind::kOpen;
  if (!is_torchs) return rule;
  if (exact_operators().contains(rule.label)) rule.kind = OperatorKind::kExact;
  // libtorch implements forward for bf16, but not backward.
  rule.is_exact_on_cpu = rule.label == "hardtanh" || rule.label == "relu6";
  const auto found = products().find(rule.label);
  if (found == products().end()) return rule;
  rule.kind = OperatorKind::kProduct;
  rule.factors = found->second.factors;
  rule.added = found->second.added;
  return rule;
}

}  // namespace

const OperatorRule& rule_of(const c10::OperatorHandle& op) {
  // A schema's address is stable while its library is loaded.
  thread_local std::unordered_map<const void*, OperatorRule> rules;
  const auto found = rules.find(&op.schema());
  if (found != rules.end()) return found->second;
  return rules.emplace(&op.schema(), make_rule(op)).first->second;
}

bool is_product(const std::string& label) { return products().contains(label); }

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
