#pragma once
// Calls back when backward() has accumulated a gradient into a parameter.

#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

namespace sheaf::parallel {

// A gradient that backward() has just added to a parameter.
struct NewGradient {
  std::size_t parameter = 0;
  // Whether parameter.grad() is the only user of its memory. Otherwise
  // backward() or the user may still read it, and it must not be written to.
  bool owns_memory = true;
  // Whether backward() has added to an existing tensor with other references,
  // such as a view of a buffer of the user. The average must then be written to
  // the same memory, unless backward() itself created the sharing.
  bool is_in_use = false;
  bool is_shared_by_backward() const { return !owns_memory && !is_in_use; }
};

// Whether there are no other references to the gradient or its memory.
bool owns_memory(const at::Tensor& gradient);

// While this object exists, `on_gradient` is called each time backward() has
// accumulated into parameters[i].grad(). The thread that runs backward() calls
// it; with several devices, one thread per device.
class GradientHooks {
 public:
  GradientHooks(const std::vector<at::Tensor>& parameters,
                std::function<void(const NewGradient&)> on_gradient);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  // A parameter holds only a weak reference to its accumulator.
  using Accumulator = decltype(torch::autograd::impl::grad_accumulator(
      std::declval<const at::Tensor&>()));
  struct Hook {
    Accumulator accumulator;
    std::uintptr_t key = 0;
  };
  std::vector<Hook> hooks_;
};

// Calls `action` at the end of the current backward(), which propagates its
// exceptions. Must be called within a backward().
void at_end_of_backward(std::function<void()> action);

// Identifies the backward() that this thread is running; null if there is none.
// A nested backward() has another identifier. Valid until that backward() ends.
using BackwardId = const void*;
BackwardId current_backward();

// Whether the current backward() computes the gradients of given inputs only,
// as autograd::grad() does. These are not accumulated into parameters.
bool is_for_some_inputs_only();

}  // namespace sheaf::parallel
