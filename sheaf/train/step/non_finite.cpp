#include "sheaf/train/step/non_finite.hpp"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "sheaf/base/error.hpp"
#include "sheaf/spatial/split/split_tensor.hpp"
#include "sheaf/train/checkpoint/kept_state.hpp"
#include "sheaf/train/step/finite.hpp"

namespace sheaf::train {
namespace {

constexpr std::string_view kLayerScope = "sheaf::layer ";

thread_local NonFiniteSearch* searching = nullptr;
// Nesting depth of operators. Nested operators are ignored, because they may
// see memory that is not yet written.
thread_local int depth = 0;

struct OpenOperator : at::ObserverContext {
  NonFiniteSearch::Operator one;
  bool counts = false;
};
struct OpenLayer : at::ObserverContext {};

at::Tensor part_of(const at::Tensor& tensor) {
  return spatial::is_split(tensor) ? spatial::local_of(tensor) : tensor;
}

void collect(const c10::IValue& value, std::vector<at::Tensor>& list) {
  if (value.isTensor() && value.toTensor().defined())
    list.push_back(value.toTensor());
  if (value.isTensorList())
    for (const at::Tensor& one : value.toTensorVector())
      if (one.defined()) list.push_back(one);
}

template <class Values>
std::vector<at::Tensor> tensors_in(const Values& values) {
  std::vector<at::Tensor> list;
  for (const c10::IValue& value : values) collect(value, list);
  return list;
}

std::unique_ptr<at::ObserverContext> begin_layer(std::string_view name) {
  if (name.substr(0, kLayerScope.size()) != kLayerScope) return nullptr;
  name.remove_prefix(kLayerScope.size());
  searching->enter_layer(std::string(name.substr(0, name.rfind(' '))));
  return std::make_unique<OpenLayer>();
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
  if (!searching) return nullptr;
  if (call.scope() == at::RecordScope::USER_SCOPE)
    return begin_layer(call.name());
  // Operators that a plan decomposes are reported without inputs.
  if (call.inputs().empty()) return nullptr;
  auto open = std::make_unique<OpenOperator>();
  open->counts = depth++ == 0;
  if (!open->counts) return open;
  const at::RecordFunctionGuard quiet(/*is_enabled=*/false);
  open->one = searching->begin(call.name(), tensors_in(call.inputs()));
  return open;
}

void on_end(const at::RecordFunction& call, at::ObserverContext* context) {
  if (!searching || !context) return;
  if (dynamic_cast<OpenLayer*>(context)) return searching->enter_layer("");
  auto* open = dynamic_cast<OpenOperator*>(context);
  --depth;
  if (!open->counts) return;
  const at::RecordFunctionGuard quiet(/*is_enabled=*/false);
  searching->end(std::move(open->one), tensors_in(call.outputs()));
}

using torch::autograd::Node;
using torch::autograd::variable_list;

// The operator whose backward pass was the first to turn finite gradients into
// non-finite ones. On a GPU the pass runs in other threads, hence the mutex.
struct FirstCause {
  std::mutex mutex;
  std::optional<std::size_t> owner;
};

class GradientCheck : public torch::autograd::FunctionPostHook {
 public:
  GradientCheck(std::size_t owner, std::shared_ptr<FirstCause> cause)
      : owner_(owner), cause_(std::move(cause)) {}

  variable_list operator()(const variable_list& computed,
                           const variable_list& given) override {
    const std::lock_guard lock(cause_->mutex);
    if (!cause_->owner && are_finite(given) && !are_finite(computed))
      cause_->owner = owner_;
    return computed;
  }

 private:
  const std::size_t owner_;
  const std::shared_ptr<FirstCause> cause_;
};

// Names the layer of a bias after its weight.
std::string layer_of(const std::string& name) {
  constexpr std::string_view kBias = ".bias";
  return name.ends_with(kBias) ? name.substr(0, name.size() - kBias.size())
                               : name;
}

// Whether the operator leaves its output uninitialized.
bool is_unwritten(std::string_view name) {
  return name.starts_with("aten::empty") ||
         name.starts_with("aten::new_empty") ||
         name.starts_with("aten::resize");
}

}  // namespace

NonFiniteSearch::NonFiniteSearch(const torch::nn::Module& module)
    : names_(module) {
  SHEAF_ASSERT(!searching, "another search is active in this thread");
  searching = this;
  depth = 0;
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(on_start, on_end)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}));
}

NonFiniteSearch::~NonFiniteSearch() { stop(); }

void NonFiniteSearch::stop() {
  if (!handle_) return;
  at::removeCallback(*handle_);
  handle_.reset();
  searching = nullptr;
}

NonFiniteSearch::Operator NonFiniteSearch::begin(
    const char* name, const std::vector<at::Tensor>& inputs) {
  const at::NoGradGuard no_grad;
  Operator one;
  one.name = name;
  one.layer = named_layer_;
  for (const at::Tensor& tensor : inputs) {
    one.inputs.push_back({tensor, is_finite(tensor)});
    if (const auto* layer = names_.find(tensor); layer && one.layer.empty())
      one.layer = layer_of(*layer);
  }
  one.after = last_layer_;
  if (!one.layer.empty()) last_layer_ = one.layer;
  return one;
}

void NonFiniteSearch::end(Operator done,
                          const std::vector<at::Tensor>& outputs) {
  const at::NoGradGuard no_grad;
  const bool is_written = !is_unwritten(done.name);
  for (const at::Tensor& tensor : outputs)
    done.outputs.push_back({tensor, !is_written || is_finite(tensor)});
  for (const at::Tensor& tensor : outputs)
    claim_nodes(tensor, operators_.size());
  operators_.push_back(std::move(done));
}

std::optional<std::size_t> NonFiniteSearch::source_of(
    const at::Tensor& tensor, std::size_t before) const {
  for (std::size_t i = before; i-- > 0;)
    for (const Value& output : operators_[i].outputs)
      if (output.tensor.is_same(tensor)) return i;
  return {};
}

std::string NonFiniteSearch::text_of(const char* what, const Operator& one) {
  if (!one.layer.empty())
    return concat("the ", what, " of layer '", one.layer, "' (", one.name, ")");
  if (!one.after.empty())
    return concat("the ", what, " of ", one.name, " after layer '", one.after,
                  "'");
  return concat("the ", what, " of ", one.name, ", before any layer");
}

std::string NonFiniteSearch::find_in_forward(const at::Tensor& result) {
  stop();
  const at::NoGradGuard no_grad;
  if (is_finite(result)) return "";
  auto at = source_of(result, operators_.size());
  // A custom function produced the result: start with the last non-finite
  // output of an observed operator.
  for (std::size_t i = operators_.size(); !at && i-- > 0;)
    for (const Value& output : operators_[i].outputs)
      if (!output.is_finite) at = i;
  if (!at) return "the result of a network that calls no operators";
  for (;;) {
    std::optional<std::size_t> next;
    bool is_given = false;
    for (const Value& input : operators_[*at].inputs) {
      if (input.is_finite || next) continue;
      next = source_of(input.tensor, *at);
      is_given = !next;
    }
    if (!next)
      return text_of("output", operators_[*at]) +
             (is_given ? ", which used a non-finite buffer or constant" : "");
    at = next;
  }
}

// Assigns to this operator all nodes that no earlier operator has created: an
// operator may create several.
void NonFiniteSearch::claim_nodes(const at::Tensor& output, std::size_t owner) {
  std::vector<Node*> left{part_of(output).grad_fn().get()};
  while (!left.empty()) {
    Node* const node = left.back();
    left.pop_back();
    // Leaves only accumulate gradients; nothing is computed there.
    if (!node || dynamic_cast<torch::autograd::AccumulateGrad*>(node) ||
        !owners_.emplace(node, owner).second)
      continue;
    for (const auto& edge : node->next_edges())
      left.push_back(edge.function.get());
  }
}

std::string NonFiniteSearch::find_in_backward(const at::Tensor& loss) {
  stop();
  torch::autograd::variable_list leaves;
  for (const Operator& one : operators_)
    for (const Value& input : one.inputs)
      if (const at::Tensor part = part_of(input.tensor);
          part.requires_grad() && part.is_leaf() &&
          std::none_of(leaves.begin(), leaves.end(),
                       [&](const auto& leaf) { return leaf.is_same(part); }))
        leaves.push_back(part);
  if (leaves.empty() || !loss.requires_grad()) return "";
  const auto cause = std::make_shared<FirstCause>();
  for (const auto& [node, owner] : owners_)
    node->add_post_hook(std::make_unique<GradientCheck>(owner, cause));
  torch::autograd::grad({loss}, leaves, {}, /*retain_graph=*/false,
                        /*create_graph=*/false, /*allow_unused=*/true);
  return cause->owner ? text_of("gradient", operators_[*cause->owner]) : "";
}

namespace {

using torch::Tensor;

// The order within a step; see NonFiniteCause.
enum Place : int { kInBatch, kInPasses, kInWeights };

// Describes the first non-finite row; empty if all are finite.
std::string find_in_rows(const Tensor& rows, const char* what) {
  if (is_finite(rows)) return "";
  std::int64_t row = 0;
  while (is_finite(rows[row])) ++row;
  return concat("the ", what, " of row ", row, " of the rank's ", rows.size(0),
                " rows of the batch");
}

std::string find_in_batch(const data::Batch& batch) {
  const std::string in_data = find_in_rows(batch.data, "input");
  return in_data.empty() ? find_in_rows(batch.target, "target") : in_data;
}

std::string find_in_piece(const LossPath& path, const Piece& piece,
                          const StepSearchOptions& options) {
  if (piece.rows() == 0 && !options.runs_empty_pieces) return "";
  const Autocast autocast = path.network.autocast();
  NonFiniteSearch search(path.network.module());
  Tensor sum;
  {
    const auto scope = path.network.plan_scope();
    sum = path.loss.sum(path.network.forward(piece.data), piece.target);
  }
  Tensor loss = sum * piece.weight;
  if (options.scale) loss = options.scale->scaled(loss);
  const std::string in_forward = search.find_in_forward(sum);
  const std::string in_backward = search.find_in_backward(loss);
  return in_forward.empty() ? in_backward : in_forward;
}

// Layers may exchange data, so every rank runs all of its passes.
std::string find_in_passes(const LossPath& path, const data::Batch& batch,
                           const StepSearchOptions& options) {
  std::string first;
  for (std::int64_t i = 0; i < path.cutter.pieces_of(batch); ++i) {
    const std::string found =
        find_in_piece(path, path.cutter.piece(batch, i), options);
    if (first.empty()) first = found;
  }
  return first;
}

}  // namespace

NonFiniteCause find_non_finite_value(const LossPath& path,
                                     const data::Batch& batch,
                                     const StepSearchOptions& options) {
  const std::string weight = path.network.find_non_finite_weight();
  const std::string in_batch = find_in_batch(batch);
  const KeptState kept(path.network.module(), path.network.device());
  torch::manual_seed(options.seed);
  const std::string in_passes = find_in_passes(path, batch, options);
  if (!in_batch.empty()) return {in_batch, kInBatch};
  if (!in_passes.empty()) return {in_passes, kInPasses};
  if (weight.empty()) return {};
  return {concat("the weight or buffer '", weight, "', before the step"),
          kInWeights};
}

}  // namespace sheaf::train
