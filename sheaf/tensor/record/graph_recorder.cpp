// Tensors are identified by their TensorImpl, memory by its StorageImpl. Weak
// pointers prevent both addresses from being reused, without keeping the data.
// The source of a tensor is the later of two nodes: the one that created it and
// the last one that wrote to its memory.
#include "sheaf/tensor/record/graph_recorder.hpp"

#include <ATen/record_function.h>
#include <torch/types.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "sheaf/base/error.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::tensor {
namespace {

constexpr std::string_view kLayerScope = "sheaf::layer ";
constexpr std::string_view kPhaseScope = "sheaf::phase ";

using WeakTensor =
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

// The layer's name: "conv1" in "sheaf::layer conv1 bf16".
std::string layer_in(std::string_view scope) {
  scope.remove_prefix(kLayerScope.size());
  return std::string(scope.substr(0, scope.rfind(' ')));
}

bool is_forward_phase(std::string_view scope) {
  scope.remove_prefix(kPhaseScope.size());
  return scope == "forward" || scope == "loss";
}

bool is_cast(const std::string& op) {
  return op == "aten::to" || op == "aten::_to_copy" || op == "aten::type_as";
}

template <class Use>
void for_each_tensor(const c10::IValue& value, Use use) {
  if (value.isTensor() && value.toTensor().defined()) {
    use(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& one : value.toTensorList())
      if (one.defined()) use(one);
  } else if (value.isTuple()) {
    for (const c10::IValue& one : value.toTupleRef().elements())
      for_each_tensor(one, use);
  } else if (value.isList()) {
    for (const c10::IValue& one : value.toListRef()) for_each_tensor(one, use);
  }
}

std::string type_name(const at::Tensor& tensor) {
  try {
    return std::string(name_of(dtype_of(tensor.scalar_type())));
  } catch (const UsageError&) {  // a type that groups cannot exchange
    return c10::toString(tensor.scalar_type());
  }
}

}  // namespace

void Statistics::add(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() == 0) return;
  const at::NoGradGuard no_grad;
  const at::RecordFunctionGuard quiet(/*is_enabled=*/false);
  const at::Tensor values = tensor.detach().to(at::kFloat);
  elements += values.numel();
  square += values.square().sum(at::kDouble).item<double>();
  largest = std::max(largest, values.abs().max().item<double>());
}

struct GraphRecorder::State {
  // Shared with gradient hooks, which may run on other threads.
  struct GradientStatistics {
    std::mutex mutex;
    std::map<std::string, Statistics> by_layer;
  };

  struct Product {
    std::string layer;
    std::string op;
    at::Tensor input;
    at::Tensor weight;
    std::int64_t outputs = 0;  // number of output elements
  };

  static thread_local State* current;
  static std::unique_ptr<at::ObserverContext> on_begin(
      const at::RecordFunction& call) {
    if (current) current->begin(call);
    return nullptr;
  }
  static void on_end(const at::RecordFunction& call, at::ObserverContext*) {
    if (current) current->end(call);
  }

  GraphRecorderOptions options;
  at::CallbackHandle handle = 0;
  std::vector<GraphNode> nodes;

  // The open scopes and operators of this thread, outermost first.
  struct OpenScope {
    bool is_operator = false;
    bool is_forward = false;  // a phase whose operators are recorded
    std::string layer;
    std::int32_t node = -1;  // node of this operator or of the enclosing one
    bool is_outermost = false;
    bool has_known_inputs =
        true;              // its inputs, or the enclosing operator's, are known
    bool is_part = false;  // part of an operator with unknown inputs
    std::vector<at::Tensor> written;
    std::optional<Product> product;
  };
  std::vector<OpenScope> open;

  std::unordered_map<const void*, std::int32_t> maker;   // by tensor
  std::unordered_map<const void*, std::int32_t> writer;  // by storage
  std::vector<WeakTensor> tensors;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages;

  std::vector<Product> products;
  std::shared_ptr<GradientStatistics> gradients =
      std::make_shared<GradientStatistics>();

  void begin(const at::RecordFunction& call);
  void end(const at::RecordFunction& call);

 private:
  void begin_operator(const at::RecordFunction& call);
  void begin_node(const at::RecordFunction& call, OpenScope& frame);
  void find_written(const at::RecordFunction& call, OpenScope& frame);
  void find_product(const at::RecordFunction& call, OpenScope& frame);
  void end_operator(const at::RecordFunction& call, OpenScope& frame);
  void listen_to(const at::Tensor& output, const std::string& layer);

  bool is_in_forward() const {
    return std::any_of(open.begin(), open.end(),
                       [](const OpenScope& one) { return one.is_forward; });
  }
  std::string layer_around() const {
    for (auto one = open.rbegin(); one != open.rend(); ++one)
      if (!one->layer.empty()) return one->layer;
    return "";
  }

  static const void* storage_of(const at::Tensor& tensor) {
    if (!tensor.has_storage()) return nullptr;
    return tensor.storage().unsafeGetStorageImpl();
  }
  std::int32_t source_of(const at::Tensor& tensor) const {
    std::int32_t source = -1;
    if (const auto at = maker.find(tensor.unsafeGetTensorImpl());
        at != maker.end())
      source = at->second;
    if (const auto at = writer.find(storage_of(tensor)); at != writer.end())
      source = std::max(source, at->second);
    return source;
  }
  void set_maker(const at::Tensor& tensor, std::int32_t node) {
    const auto [at, is_new] =
        maker.insert_or_assign(tensor.unsafeGetTensorImpl(), node);
    if (is_new) tensors.emplace_back(tensor.getIntrusivePtr());
  }
  void set_writer(const at::Tensor& tensor, std::int32_t node) {
    const void* storage = storage_of(tensor);
    if (!storage) return;
    const auto [at, is_new] = writer.insert_or_assign(storage, node);
    if (is_new) storages.push_back(tensor.storage().getWeakStorageImpl());
  }
};

void GraphRecorder::State::begin(const at::RecordFunction& call) {
  if (call.scope() != at::RecordScope::USER_SCOPE) return begin_operator(call);
  OpenScope& frame = open.emplace_back();
  const std::string_view name = call.name();
  if (name.starts_with(kPhaseScope)) frame.is_forward = is_forward_phase(name);
  if (!name.starts_with(kLayerScope)) return;
  frame.layer = layer_in(name);
  // An operator composed of layers gets the name of the first one.
  for (const OpenScope& around : open)
    if (around.is_operator && around.node >= 0) {
      GraphNode& node = nodes[static_cast<std::size_t>(around.node)];
      if (node.layer.empty()) node.layer = frame.layer;
    }
}

void GraphRecorder::State::begin_operator(const at::RecordFunction& call) {
  OpenScope frame;
  frame.is_operator = true;
  const auto around =
      std::find_if(open.rbegin(), open.rend(),
                   [](const OpenScope& f) { return f.is_operator; });
  if (around != open.rend()) {
    frame.node = around->node;
    frame.is_part = frame.node >= 0 && !around->has_known_inputs;
    frame.has_known_inputs = around->has_known_inputs || !call.inputs().empty();
    if (frame.is_part) begin_node(call, frame);
  } else if (is_in_forward()) {
    frame.is_outermost = true;
    frame.has_known_inputs = !call.inputs().empty();
    frame.node = static_cast<std::int32_t>(nodes.size());
    GraphNode& node = nodes.emplace_back();
    node.op = call.name();
    node.layer = layer_around();
    begin_node(call, frame);
  }
  const bool is_in_layer = !open.empty() && !open.back().layer.empty();
  if (frame.node >= 0 && is_in_layer && options.has_statistics)
    find_product(call, frame);
  open.push_back(std::move(frame));
}

// Also called for the parts of an operator that does not report its inputs: its
// inputs are the parts' inputs from other operators.
void GraphRecorder::State::begin_node(const at::RecordFunction& call,
                                      OpenScope& frame) {
  GraphNode& node = nodes[static_cast<std::size_t>(frame.node)];
  for (const c10::IValue& input : call.inputs())
    for_each_tensor(input, [&](const at::Tensor& tensor) {
      const std::int32_t source = source_of(tensor);
      if (source == frame.node) return;
      node.inputs.push_back(source);
      node.in.push_back(tensor.sizes().vec());
    });
  find_written(call, frame);
}

void GraphRecorder::State::find_written(const at::RecordFunction& call,
                                        OpenScope& frame) {
  const auto schema = call.operator_schema();
  if (!schema) return;
  const auto& arguments = schema->arguments();
  const auto inputs = call.inputs();
  for (std::size_t i = 0; i < std::min(arguments.size(), inputs.size()); ++i) {
    const auto* alias = arguments[i].alias_info();
    if (!alias || !alias->isWrite()) continue;
    for_each_tensor(inputs[i], [&](const at::Tensor& tensor) {
      frame.written.push_back(tensor);
    });
  }
}

// In addmm and similar operators the added tensor precedes the factors.
void GraphRecorder::State::find_product(const at::RecordFunction& call,
                                        OpenScope& frame) {
  const std::string op = call.name();
  if (is_cast(op)) return;
  std::vector<at::Tensor> taken;
  for (const c10::IValue& input : call.inputs())
    if (input.isTensor() && input.toTensor().defined())
      taken.push_back(input.toTensor());
  const std::size_t first = op.find("add") == op.npos ? 0 : 1;
  if (taken.size() < first + 2) return;
  frame.product =
      Product{open.back().layer, op, taken[first], taken[first + 1], 0};
}

void GraphRecorder::State::end(const at::RecordFunction& call) {
  if (open.empty()) return;  // it began before the recording
  OpenScope frame = std::move(open.back());
  open.pop_back();
  if (frame.is_operator && frame.node >= 0) end_operator(call, frame);
}

void GraphRecorder::State::end_operator(const at::RecordFunction& call,
                                        OpenScope& frame) {
  GraphNode& node = nodes[static_cast<std::size_t>(frame.node)];
  const bool is_made_here = frame.is_outermost || frame.is_part;
  bool is_first = true;
  for (const c10::IValue& output : call.outputs())
    for_each_tensor(output, [&](const at::Tensor& tensor) {
      if (is_made_here) set_maker(tensor, frame.node);
      if (frame.is_outermost) node.out.push_back(tensor.sizes().vec());
      // The type of the last part, unless the operator reports its outputs.
      if (is_made_here && std::exchange(is_first, false))
        node.type = type_name(tensor);
      if (!frame.product) return;
      frame.product->outputs += tensor.numel();
      listen_to(tensor, frame.product->layer);
    });
  for (const at::Tensor& tensor : frame.written) {
    set_maker(tensor, frame.node);
    set_writer(tensor, frame.node);
  }
  if (frame.product) products.push_back(std::move(*frame.product));
}

void GraphRecorder::State::listen_to(const at::Tensor& output,
                                     const std::string& layer) {
  if (!output.requires_grad()) return;
  output.register_hook([layer, kept = gradients](const at::Tensor& gradient) {
    const std::lock_guard lock(kept->mutex);
    kept->by_layer[layer].add(gradient);
  });
}

thread_local GraphRecorder::State* GraphRecorder::State::current = nullptr;

GraphRecorder::GraphRecorder(const GraphRecorderOptions& options)
    : state_(std::make_unique<State>()) {
  SHEAF_CHECK(!State::current,
              "a graph recording is already active on this thread");
  state_->options = options;
  State::current = state_.get();
  state_->handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(State::on_begin, State::on_end)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE})
          .needsInputs(true)
          .needsOutputs(true));
}

GraphRecorder::~GraphRecorder() {
  at::removeCallback(state_->handle);
  State::current = nullptr;
}

const std::vector<GraphNode>& GraphRecorder::nodes() const {
  return state_->nodes;
}

std::map<std::string, LayerStatistics> GraphRecorder::take_statistics() {
  std::map<std::string, LayerStatistics> result;
  for (const State::Product& one : std::exchange(state_->products, {})) {
    LayerStatistics& layer = result[one.layer];
    layer.op = one.op;
    layer.input.add(one.input);
    // The weight is the same tensor in each call.
    if (layer.weight.elements == 0) layer.weight.add(one.weight);
    layer.output.elements += one.outputs;
  }
  const std::lock_guard lock(state_->gradients->mutex);
  for (const auto& [name, gradient] : state_->gradients->by_layer)
    result[name].output_gradient = gradient;
  return result;
}

}  // namespace sheaf::tensor
