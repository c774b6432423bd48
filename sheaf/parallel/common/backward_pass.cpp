#include "sheaf/parallel/common/backward_pass.hpp"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <chrono>
#include <thread>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/stopwatch.hpp"

namespace sheaf::parallel {
namespace {

using torch::autograd::variable_list;

// Upper limit for the wait below. Threads normally release a backward() that
// threw within microseconds.
constexpr double kMostWaitMs = 10000;

struct OutputHook : torch::autograd::FunctionPreHook {
  variable_list operator()(const variable_list& gradients) override {
    if (*pass && (*pass)->is_syncing() && !is_for_some_inputs_only())
      (*pass)->open_at_output();
    return gradients;
  }
  std::shared_ptr<BackwardPass*> pass;
};

}  // namespace

ParameterHooks::ParameterHooks(BackwardPass& pass,
                               const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& one : parameters)
    hooks_.emplace_back(one, one.register_hook([&pass](const at::Tensor&) {
      if (pass.is_syncing() && !is_for_some_inputs_only() &&
          !at::GradMode::is_enabled())
        pass.open();
    }));
}

ParameterHooks::~ParameterHooks() {
  for (const auto& [parameter, hook] : hooks_) parameter.remove_hook(hook);
}

// The autograd engine destroys the callbacks of a backward() with it, whether
// or not it has called them.
struct BackwardPass::End {
  std::shared_ptr<BackwardPass*> pass;
};

BackwardPass::~BackwardPass() {
  *self_ = nullptr;
  hooks_.reset();
}

void BackwardPass::connect(std::vector<GradientSink*> sinks,
                           std::vector<Connection> connections) {
  hooks_.reset();
  sinks_ = std::move(sinks);
  if (connections.empty()) return;
  std::vector<at::Tensor> parameters;
  for (Connection& one : connections)
    parameters.push_back(std::move(one.parameter));
  hooks_ = std::make_unique<GradientHooks>(
      parameters, [this, to = std::move(connections)](const NewGradient& one) {
        on_gradient(to[one.parameter], one);
      });
}

void BackwardPass::on_gradient(const Connection& to, NewGradient gradient) {
  const std::lock_guard lock(mutex_);
  gradient.parameter = to.index;
  if (!is_syncing_) return to.sink->add_local(gradient);
  SHEAF_CHECK(!at::GradMode::is_enabled(),
              "gradients of a backward() with create_graph cannot be averaged; "
              "compute second-order gradients with torch::autograd::grad() and "
              "call backward() on the result, or use no_sync()");
  open_locked(&to);
  to.sink->add(gradient);
}

void BackwardPass::open() {
  const std::lock_guard lock(mutex_);
  open_locked();
}

void BackwardPass::open_at_output() {
  wait_for_end_of_others();
  open();
}

// A device's thread may hold a backward() for a moment after it threw, so this
// function waits for its end.
void BackwardPass::wait_for_end_of_others() {
  const Stopwatch watch;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      // If this thread has opened the pass, it has already released any
      // backward() that threw: the open pass belongs to a backward() that
      // encloses this one.
      if (!open_ || open_->end.expired() ||
          open_->backward == current_backward() ||
          open_->thread == std::this_thread::get_id())
        return;
    }
    SHEAF_CHECK(watch.ms() < kMostWaitMs,
                "backward() through an output of a module was called within "
                "another backward() through one; call it afterwards");
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void BackwardPass::open_locked(const Connection* first) {
  if (open_ && !open_->end.expired()) return;
  if (open_) discard_locked();
  if (before_pass_) before_pass_();
  const auto end = std::make_shared<End>(End{self_});
  at_end_of_backward([end] {
    if (*end->pass) (*end->pass)->close();
  });
  open_ = Open{end, current_backward(), std::this_thread::get_id()};
  for (GradientSink* const sink : sinks_)
    sink->begin_pass(first && first->sink == sink ? std::optional(first->index)
                                                  : std::nullopt);
}

void BackwardPass::watch(const std::vector<at::Tensor*>& outputs) {
  for (const at::Tensor* const output : outputs) {
    if (!output->defined() || !output->grad_fn()) continue;
    auto hook = std::make_unique<OutputHook>();
    hook->pass = self_;
    output->grad_fn()->add_pre_hook(std::move(hook));
  }
}

void BackwardPass::discard_broken() {
  const std::lock_guard lock(mutex_);
  // The end may not have expired yet: a device's thread can hold a backward()
  // for a moment after it threw.
  if (open_ && (open_->end.expired() || !current_backward())) discard_locked();
}

void BackwardPass::discard_locked() {
  open_.reset();
  for (GradientSink* const sink : sinks_) sink->discard();
}

void BackwardPass::close() {
  try {
    finalize();
  } catch (...) {
    try {
      if (after_failure_) after_failure_();
    } catch (...) {  // only the first failure is reported
    }
    throw;
  }
}

void BackwardPass::finalize() {
  const std::lock_guard lock(mutex_);
  if (!open_) return;
  try {
    for (GradientSink* const sink : sinks_) sink->flush();
    for (GradientSink* const sink : sinks_) sink->finalize();
  } catch (...) {
    discard_locked();
    throw;
  }
  open_.reset();
  if (after_pass_) after_pass_();
}

}  // namespace sheaf::parallel
