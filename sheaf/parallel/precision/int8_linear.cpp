// Linear layers in int8.
#include <ATen/Functions.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "sheaf/parallel/precision/int8_function.hpp"
#include "sheaf/parallel/precision/int8_matrix.hpp"
#include "sheaf/parallel/precision/int8_product.hpp"

namespace sheaf::parallel {
namespace int8 {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor linear_forward(const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& bias, bool by_channel) {
  const std::int64_t inner = round_up(x.size(1), kInnerUnit);
  const Int8Matrix left =
      quantized(x, amax_of(x), std::max(x.size(0), kLeastRows), inner);
  const Int8Matrix right = quantized_weight(weight, by_channel, inner);
  at::Tensor y = at::empty({x.size(0), weight.size(0)}, x.options());
  multiply(left, right, bias, {y.size(0), y.size(1), y.data_ptr(), 0});
  return y;
}

struct Int8Linear : torch::autograd::Function<Int8Linear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight,
                            const OptionalTensor& bias, bool by_channel) {
    context->save_for_backward({x, weight});
    auto sizes = x.sizes().vec();
    sizes.back() = weight.size(0);
    // Not recorded as a view, so that in-place operations on the result work.
    return at::_unsafe_view(
        linear_forward(rows_of(x).contiguous(), weight.contiguous(),
                       bias_of(context, bias), by_channel),
        sizes);
  }
  static at::Tensor rows_of(const at::Tensor& x) {
    return x.reshape({-1, x.size(-1)});
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor delta = rows_of(gradients[0]);
    variable_list results(4);
    if (context->needs_input_grad(0))
      results[0] = delta.mm(saved[1]).view(saved[0].sizes());
    if (context->needs_input_grad(1))
      results[1] = delta.t().mm(rows_of(saved[0]));
    if (needs_bias(context)) results[2] = delta.sum(0);
    return results;
  }
};

}  // namespace
}  // namespace int8

at::Tensor int8_linear(const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& bias, bool scales_by_channel) {
  const c10::DeviceGuard on_device(x.device());
  const int8::Told told("sheaf::int8_linear", int8::next_gradient_node());
  return int8::Int8Linear::apply(x, weight, int8::given(bias),
                                 scales_by_channel);
}

}  // namespace sheaf::parallel
