#include "sheaf/parallel/products/product_tap.hpp"

#include <torch/csrc/autograd/function_hook.h>

#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/common/gradient_hooks.hpp"

namespace sheaf::parallel {
namespace {

using torch::autograd::variable_list;

struct BeforeProduct : torch::autograd::FunctionPreHook {
  variable_list operator()(const variable_list& gradients) override {
    tap->before(gradients[0]);
    return gradients;
  }
  std::shared_ptr<ProductTap> tap;
};

// User hooks may still change the gradient before the node runs; this hook sees
// the gradient that the node has used.
struct AfterProduct : torch::autograd::FunctionPostHook {
  variable_list operator()(const variable_list& outputs,
                           const variable_list& inputs) override {
    if (!is_for_some_inputs_only()) tap->after(outputs, inputs[0]);
    return outputs;
  }
  std::shared_ptr<ProductTap> tap;
};

}  // namespace

std::shared_ptr<ProductTap> ProductTap::attach(const Product& product,
                                               Handlers handlers) {
  const std::shared_ptr<ProductTap> tap(
      new ProductTap(product, std::move(handlers)));
  auto before = std::make_unique<BeforeProduct>();
  auto after = std::make_unique<AfterProduct>();
  before->tap = tap;
  after->tap = tap;
  product.node->add_pre_hook(std::move(before));
  product.node->add_post_hook(std::move(after));
  return tap;
}

ProductTap::ProductTap(const Product& product, Handlers handlers)
    : node_(product.node.get()),
      edges_{product.weight_edge},
      input_edge_(product.input_edge),
      handlers_(std::move(handlers)) {
  if (product.bias) edges_.push_back(product.bias_edge);
}

ProductTap::~ProductTap() { handlers_.on_end(); }

// An autograd node computes no gradient for an edge without a target. The edge
// is restored before the engine follows it, so that nodes that count incoming
// edges, such as the accumulator of a parameter with other uses, are not
// affected. It is also restored if the backward() ends in between because a
// user hook threw.
class ProductTap::Cut {
 public:
  Cut(torch::autograd::Node& node, const std::vector<std::size_t>& edges)
      : node_(node.shared_from_this()) {
    for (const std::size_t edge : edges)
      edges_.emplace_back(edge, std::exchange(node.next_edges()[edge], {}));
  }
  ~Cut() { restore(); }
  Cut(const Cut&) = delete;
  Cut& operator=(const Cut&) = delete;

  void restore() {
    for (auto& [edge, leads_to] : edges_)
      node_->next_edges()[edge] = std::move(leads_to);
    edges_.clear();
    node_.reset();
  }

 private:
  std::shared_ptr<torch::autograd::Node> node_;
  std::vector<std::pair<std::size_t, torch::autograd::Edge>> edges_;
};

void ProductTap::before(const at::Tensor& gradient) {
  SHEAF_CHECK(cut_.expired(),
              "a hook calls backward() or autograd::grad() through a layer "
              "whose own backward() is running, which DadParallel does not "
              "support; call it after backward()");
  // With create_graph, the delta would not be part of the new graph.
  if (gradient.defined() && !at::GradMode::is_enabled() &&
      !is_for_some_inputs_only() && handlers_.takes()) {
    const auto cut = std::make_shared<Cut>(*node_, edges_);
    cut_ = cut;
    // The engine releases it with the backward(), however that ends.
    at_end_of_backward([cut] {});
  }
}

void ProductTap::after(const std::vector<at::Tensor>& outputs,
                       const at::Tensor& gradient) {
  if (from_above_) from_above_->arrive(gradient);
  if (to_below_) to_below_->start(outputs[input_edge_]);
  const auto cut = std::exchange(cut_, {}).lock();
  if (!cut) return;
  cut->restore();
  handlers_.on_gradient(gradient.detach());
}

}  // namespace sheaf::parallel
