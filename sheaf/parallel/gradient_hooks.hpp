#pragma once
// Calls back when a parameter's gradient of a backward pass is complete.

#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <functional>
#include <vector>

namespace sheaf::parallel {

// While it lives, `on_gradient(i)` is called each time backward() has
// accumulated into parameters[i].grad(), by the thread that runs backward
// (with several devices, by one thread of each).
class GradientHooks {
 public:
  GradientHooks(const std::vector<at::Tensor>& parameters,
                std::function<void(std::size_t)> on_gradient);
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

}  // namespace sheaf::parallel
