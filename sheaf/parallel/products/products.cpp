#include "sheaf/parallel/products/products.hpp"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include <string_view>

namespace sheaf::parallel {
namespace {

// One active watch per thread: a module within a module is watched by the outer
// one.
thread_local ProductWatch* watching = nullptr;

struct Seen : at::ObserverContext {
  std::vector<c10::IValue> inputs;
};

bool is_product(std::string_view name) {
  return name == "aten::addmm" || name == "aten::mm" ||
         name == "aten::embedding";
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
  if (!watching || !is_product(call.name())) return nullptr;
  auto seen = std::make_unique<Seen>();
  const auto inputs = call.inputs();
  seen->inputs.assign(inputs.begin(), inputs.end());
  return seen;
}

void on_end(const at::RecordFunction& call, at::ObserverContext* context) {
  if (!watching || !context || call.outputs().size() != 1) return;
  const c10::IValue& output = call.outputs()[0];
  if (output.isTensor() && output.toTensor().grad_fn())
    watching->see(call.name(), static_cast<Seen*>(context)->inputs,
                  output.toTensor());
}

bool is_one(const c10::IValue& value) {
  return value.isScalar() && value.toScalar().toDouble() == 1;
}

bool is_view(const std::string& name) {
  for (const char* view :
       {"TBackward", "Transpose", "Slice", "View", "Permute", "Select",
        "Reshape", "UnsafeView", "Narrow", "Unsqueeze", "Squeeze", "Split",
        "Chunk", "Alias", "AsStrided"})
    if (name.rfind(view, 0) == 0) return true;
  return false;
}

// Whether the user has registered hooks on a view of a parameter.
bool has_hooks(torch::autograd::Node& node) {
#if TORCH_VERSION_MAJOR >= 2
  if (!node.tensor_pre_hooks().empty() || !node.retains_grad_hooks().empty())
    return true;
#endif
  return !node.pre_hooks().empty() || !node.post_hooks().empty();
}

// Whether the gradient reaches the parameter through views only, and not
// through a function or hook that would be bypassed.
bool leads_to(const at::Tensor& tensor, const at::Tensor& parameter) {
  const auto goal = torch::autograd::impl::grad_accumulator(parameter);
  auto node = torch::autograd::impl::gradient_edge(tensor).function;
  while (node && node != goal) {
    if (!is_view(node->name()) || node->num_outputs() != 1 || has_hooks(*node))
      return false;
    node = node->next_edge(0).function;
  }
  return node == goal;
}

// Whether all elements of the matrix have different memory locations; otherwise
// their gradients would have to be summed.
bool is_sound(const at::Tensor& weight) {
  if (weight.dim() != 2 || weight.stride(0) <= 0 || weight.stride(1) <= 0)
    return false;
  const int inner = weight.stride(0) < weight.stride(1) ? 0 : 1;
  const int outer = 1 - inner;
  return weight.size(outer) <= 1 || weight.size(inner) <= 1 ||
         weight.stride(outer) > weight.stride(inner) * (weight.size(inner) - 1);
}

const void* storage_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl()
                              : nullptr;
}

}  // namespace

at::Tensor part_of(const at::Tensor& like_parameter, const WeightView& view) {
  return like_parameter.as_strided(
      {view.out, view.in}, {view.out_stride, view.in_stride},
      like_parameter.storage_offset() + view.offset);
}

at::Tensor Product::delta(const at::Tensor& gradient) const {
  if (view.is_lookup) return gradient.reshape({-1, view.out});
  return is_transposed ? gradient.t() : gradient;
}

ProductWatch::ProductWatch(const std::vector<at::Tensor>& parameters,
                           Handler on_product)
    : parameters_(parameters), on_product_(std::move(on_product)) {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].defined() && parameters_[i].is_contiguous())
      by_storage_.emplace(storage_of(parameters_[i]), i);
}

void ProductWatch::start() {
  if (handle_ || watching) return;
  watching = this;
  handle_ =
      at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end)
                                     .needsInputs(true)
                                     .needsOutputs(true)
                                     .scopes({at::RecordScope::FUNCTION}));
}

void ProductWatch::stop() {
  if (!handle_) return;
  at::removeCallback(*handle_);
  handle_.reset();
  watching = nullptr;
}

void ProductWatch::see(const char* name, const std::vector<c10::IValue>& inputs,
                       const at::Tensor& output) {
  const std::string_view which(name);
  if (which == "aten::embedding") return see_embedding(inputs, output);
  if (which == "aten::addmm") return see_addmm(inputs, output);
  if (auto product =
          matrix_product(inputs[0].toTensor(), inputs[1].toTensor(), 0))
    notify(*std::move(product), output);
}

// Finds the parameter whose memory the tensor is a view of. Parameters with
// user hooks are excluded, because the hooks need to see the gradient.
std::optional<std::size_t> ProductWatch::find(const at::Tensor& tensor) const {
  if (!tensor.defined() || !tensor.requires_grad()) return {};
  if (tensor.layout() != at::kStrided || !tensor.is_floating_point()) return {};
  const auto [begin, end] = by_storage_.equal_range(storage_of(tensor));
  for (auto it = begin; it != end; ++it) {
    const at::Tensor& parameter = parameters_[it->second];
    const std::int64_t place =
        tensor.storage_offset() - parameter.storage_offset();
    if (place >= 0 && place < parameter.numel() &&
        tensor.numel() <= parameter.numel() &&
        tensor.scalar_type() == parameter.scalar_type() &&
        torch::autograd::impl::hooks(parameter).empty() &&
        leads_to(tensor, parameter))
      return it->second;
  }
  return {};
}

std::optional<Product> ProductWatch::matrix_product(
    const at::Tensor& left, const at::Tensor& right,
    std::size_t first_edge) const {
  const auto left_found = find(left);
  const auto right_found = find(right);
  if (left_found.has_value() == right_found.has_value()) return {};
  Product product;
  product.is_transposed = left_found.has_value();
  const at::Tensor weight = product.is_transposed ? left.t() : right;
  const at::Tensor& other = product.is_transposed ? right : left;
  if (!is_sound(weight) || other.layout() != at::kStrided ||
      other.scalar_type() != weight.scalar_type())
    return {};
  product.weight = left_found ? *left_found : *right_found;
  product.weight_edge = first_edge + (product.is_transposed ? 0 : 1);
  product.input_edge = first_edge + (product.is_transposed ? 1 : 0);
  const at::Tensor& input = product.is_transposed ? right : left;
  product.input = (product.is_transposed ? input.t() : input).detach();
  product.input_node = input.grad_fn();
  product.view = {
      weight.size(0), weight.size(1), weight.stride(0), weight.stride(1),
      weight.storage_offset() - parameters_[product.weight].storage_offset()};
  return product;
}

void ProductWatch::see_addmm(const std::vector<c10::IValue>& inputs,
                             const at::Tensor& y) {
  if (!is_one(inputs[3]) || !is_one(inputs[4])) return;
  auto product = matrix_product(inputs[1].toTensor(), inputs[2].toTensor(), 1);
  if (!product) return;
  const at::Tensor& bias = inputs[0].toTensor();
  const auto found = find(bias);
  if (found && bias.dim() == 1 && !product->is_transposed &&
      bias.numel() == parameters_[*found].numel() &&
      bias.numel() == product->view.out)
    product->bias = found;
  notify(*std::move(product), y);
}

void ProductWatch::see_embedding(const std::vector<c10::IValue>& inputs,
                                 const at::Tensor& y) {
  const at::Tensor& weight = inputs[0].toTensor();
  const auto found = find(weight);
  const bool is_scaled = inputs[3].toBool();
  const bool is_sparse = inputs[4].toBool();
  if (!found || is_scaled || is_sparse || weight.dim() != 2) return;
  Product product;
  product.weight = *found;
  product.view = {
      weight.size(0),
      weight.size(1),
      weight.stride(0),
      weight.stride(1),
      weight.storage_offset() - parameters_[*found].storage_offset(),
      /*is_lookup=*/true};
  product.input = inputs[1].toTensor().detach().reshape({-1, 1}).to(at::kLong);
  // Padding rows have no gradient.
  const std::int64_t padding = inputs[2].toInt();
  if (padding >= 0)
    product.input = product.input.masked_fill(product.input == padding, -1);
  notify(std::move(product), y);
}

void ProductWatch::notify(Product product, const at::Tensor& output) {
  // Autocast may compute in another type than the parameter's.
  if (output.scalar_type() != parameters_[product.weight].scalar_type()) return;
  product.node = output.grad_fn();
  on_product_(std::move(product));
}

}  // namespace sheaf::parallel
