#include "sheaf/parallel/common/gradient_hooks.hpp"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <algorithm>
#include <utility>

namespace sheaf::parallel {
namespace {

using torch::autograd::variable_list;

// The tensors that share the memory of a gradient, each with the number of its
// known references.
class Sharers {
 public:
  explicit Sharers(const at::Tensor& gradient)
      : memory_(gradient.storage().unsafeGetStorageImpl()) {
    add(gradient);
  }
  // Adds a known reference to `tensor`.
  void add(const at::Tensor& tensor) {
    if (!tensor.has_storage() ||
        tensor.storage().unsafeGetStorageImpl() != memory_)
      return;
    for (auto& [known, references] : list_)
      if (known->is_same(tensor)) {
        ++references;
        return;
      }
    list_.push_back({&tensor, 1});
    // A view holds a reference to its base.
    const auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
    if (view && view->has_bw_view()) add(view->get_backward_view().base_);
    if (view && view->has_fw_view() && !view->shared_view_info())
      add(view->get_forward_view().base_);
  }
  // Whether the known references are the only ones. Memory without an allocator
  // comes from from_blob() and belongs to somebody else.
  bool are_all() const {
    return memory_->allocator() != nullptr &&
           memory_use_count() == list_.size() &&
           std::all_of(list_.begin(), list_.end(), [](const auto& one) {
             return one.first->use_count() == one.second;
           });
  }

 private:
  std::size_t memory_use_count() const {
    return static_cast<std::size_t>(list_[0].first->storage().use_count());
  }

  const c10::StorageImpl* memory_;
  std::vector<std::pair<const at::Tensor*, std::size_t>> list_;
};

// The accumulator takes over a gradient tensor that has no other references,
// but its memory may be shared with other tensors: its views, or its base.
// `given` is the tensor that backward() passed, which the engine holds until
// the hooks have run.
NewGradient describe(std::size_t parameter, const at::Tensor& gradient,
                     const at::Tensor& given) {
  if (!gradient.defined() || !gradient.has_storage()) return {parameter};
  Sharers sharers(gradient);
  sharers.add(given);
  const bool owns_memory = sharers.are_all();
  const bool was_taken_over =
      given.has_storage() && given.storage().unsafeGetStorageImpl() ==
                                 gradient.storage().unsafeGetStorageImpl();
  return {parameter, owns_memory, !owns_memory && !was_taken_over};
}

}  // namespace

bool owns_memory(const at::Tensor& gradient) {
  return !gradient.defined() || !gradient.has_storage() ||
         Sharers(gradient).are_all();
}

GradientHooks::GradientHooks(
    const std::vector<at::Tensor>& parameters,
    std::function<void(const NewGradient&)> on_gradient) {
  const auto handler =
      std::make_shared<std::function<void(const NewGradient&)>>(
          std::move(on_gradient));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Hook hook;
    hook.accumulator = torch::autograd::impl::grad_accumulator(parameters[i]);
    const c10::weak_intrusive_ptr<c10::TensorImpl> parameter(
        parameters[i].getIntrusivePtr());
    hook.key = hook.accumulator->add_post_hook(
        std::make_unique<torch::autograd::utils::LambdaPostHook>(
            [=](const variable_list& outputs, const variable_list& inputs) {
              // An autograd function may return an undefined gradient.
              if (inputs.empty() || !inputs[0].defined()) return outputs;
              const at::Tensor tensor(parameter.lock());
              // The parameter was frozen after forward(): nothing was
              // accumulated.
              if (!tensor.requires_grad()) return outputs;
              (*handler)(describe(i, tensor.grad(), inputs[0]));
              return outputs;
            }));
    hooks_.push_back(std::move(hook));
  }
}

GradientHooks::~GradientHooks() {
  for (const Hook& hook : hooks_) hook.accumulator->del_post_hook(hook.key);
}

void at_end_of_backward(std::function<void()> action) {
  torch::autograd::Engine::get_default_engine().queue_callback(
      std::move(action));
}

BackwardId current_backward() {
  return torch::autograd::get_current_graph_task_exec_info();
}

bool is_for_some_inputs_only() {
  const auto* wanted = torch::autograd::get_current_graph_task_exec_info();
  return wanted && !wanted->empty();
}

}  // namespace sheaf::parallel
