#include "sheaf/parallel/dad/row_weights.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include "sheaf/base/error.hpp"

namespace sheaf::parallel {
namespace {

// Multiplies a gradient by a number. Second-order gradients pass unchanged; see
// ScaleGradient.
struct ScaleOnce : torch::autograd::Function<ScaleOnce> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/,
                            const at::Tensor& gradient, double scale) {
    return gradient * scale;
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* /*context*/,
      torch::autograd::variable_list gradients) {
    return {gradients[0], {}};
  }
};

// Returns the same values; the gradient is multiplied by `scale`. With a factor
// w on the outputs of a module and 1/w on its inputs, the gradients of its
// parameters are multiplied by w, while the gradients of its inputs are
// unchanged. With create_graph, second-order gradients enter the module through
// its inputs and leave it through its outputs. The parameters already have the
// factor w there, because they are multiplied with gradients inside the module.
struct ScaleGradient : torch::autograd::Function<ScaleGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x, double scale) {
    context->saved_data["scale"] = scale;
    return x.clone();  // a copy, which may be modified in place
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    const double scale = context->saved_data["scale"].toDouble();
    return {scale == 1 ? gradients[0] : ScaleOnce::apply(gradients[0], scale),
            {}};
  }
};

}  // namespace

at::Tensor weighted_output(const at::Tensor& output, double weight) {
  return ScaleGradient::apply(output, weight);
}

// On a rank without rows, the gradients of the inputs are zero.
void UnweightedInputs::take(const std::vector<at::Tensor*>& inputs,
                            double weight) {
  for (at::Tensor* const input : inputs) {
    if (!input->defined() || !input->requires_grad()) continue;
    Pair& pair = pairs_.emplace_back();
    pair.given = *input;
    *input = ScaleGradient::apply(*input, weight > 0 ? 1 / weight : 0.);
    pair.used = *input;
    pair.version = input->_version();
  }
}

void UnweightedInputs::give_back(const std::vector<at::Tensor*>& inputs) const {
  for (const Pair& pair : pairs_)
    SHEAF_CHECK(pair.used._version() == pair.version,
                "the module modifies an argument of forward() in "
                "place, while ranks with unequal numbers of rows are weighted; "
                "let it modify a copy, or use Average::kRanks");
  for (at::Tensor* const input : inputs)
    for (const Pair& pair : pairs_)
      if (input->is_same(pair.used)) *input = pair.given;
}

}  // namespace sheaf::parallel
