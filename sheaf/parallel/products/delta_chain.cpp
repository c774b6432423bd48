#include "sheaf/parallel/products/delta_chain.hpp"

#include <torch/csrc/autograd/function_hook.h>

#include <utility>

#include "sheaf/parallel/common/gradient_hooks.hpp"

namespace sheaf::parallel {
namespace {

using torch::autograd::variable_list;

struct FunctionHook : torch::autograd::FunctionPostHook {
  variable_list operator()(const variable_list& outputs,
                           const variable_list& inputs) override {
    if (is_for_some_inputs_only()) return outputs;
    chain->pass(inputs[0], outputs[0]);
    return outputs;
  }
  std::shared_ptr<DeltaChain> chain;
};

}  // namespace

void DeltaChain::start(const at::Tensor& gradient) {
  ++started_;
  hold(gradient);
}

void DeltaChain::pass(const at::Tensor& in, const at::Tensor& out) {
  check(in);
  hold(out);
}

void DeltaChain::hold(const at::Tensor& gradient) {
  // With create_graph, the gradient's history leads back to the nodes that own
  // this object.
  if (gradient.defined() && gradient.requires_grad()) {
    is_whole_ = false;
    return;
  }
  passing_ = gradient;
  version_ = gradient.defined() ? gradient._version() : 0;
}

void DeltaChain::arrive(const at::Tensor& gradient) {
  ++arrived_;
  check(gradient);
}

void DeltaChain::check(const at::Tensor& gradient) {
  const at::Tensor expected = std::exchange(passing_, {});
  if (!gradient.defined() || !expected.defined() ||
      !gradient.is_same(expected) || gradient._version() != version_)
    is_whole_ = false;
}

void watch_function(torch::autograd::Node& node,
                    const std::shared_ptr<DeltaChain>& chain) {
  auto hook = std::make_unique<FunctionHook>();
  hook->chain = chain;
  node.add_post_hook(std::move(hook));
}

}  // namespace sheaf::parallel
