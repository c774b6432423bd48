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
  // Whether the memory of parameter.grad() belongs to it alone. Otherwise
  // backward(), or the user, may still read it: it must not be written to.
  bool owns_memory = true;
  // backward() has added to a tensor that was there before and that others
  // refer to, such as a view of the user's own buffer: the average belongs into
  // the same memory, unless backward() itself had made them share it.
  bool is_in_use = false;
  bool is_shared_by_backward() const { return !owns_memory && !is_in_use; }
};

// Whether nobody else refers to the gradient or to its memory.
bool owns_memory(const at::Tensor& gradient);

// While it lives, `on_gradient` is called each time backward() has accumulated
// into parameters[i].grad(), by the thread that runs backward (with several
// devices, by one thread of each).
class GradientHooks {
 public:
  GradientHooks(const std::vector<at::Tensor>& parameters,
                std::function<void(const NewGradient&)> on_gradient);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  // The parameter itself holds its accumulator only weakly.
  using Accumulator = decltype(torch::autograd::impl::grad_accumulator(
      std::declval<const at::Tensor&>()));
  struct Hook {
    Accumulator accumulator;
    std::uintptr_t key = 0;
  };
  std::vector<Hook> hooks_;
};

// Calls `action` at the end of the backward pass that runs now; what it throws
// comes out of backward(). Only to be called from within a pass.
void at_end_of_backward(std::function<void()> action);

// The backward() that this thread runs, while it lasts; null: none. One within
// another has its own.
using BackwardId = const void*;
BackwardId current_backward();

// Whether the backward that runs now computes gradients of given inputs only,
// as autograd::grad() does; those are not accumulated into parameters.
bool is_for_some_inputs_only();

}  // namespace sheaf::parallel
