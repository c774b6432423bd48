#include <torch/library.h>
#include <torch/torch.h>

#include "sheaf/nn/locally_connected.hpp"

// The windows are copied into one matrix per position, with the batch as the
// innermost axis, so that copies are contiguous; then one batched product
// computes all positions. The backward pass extracts the windows again instead
// of saving them, since they need the memory of the image times the filter
// size.
namespace sheaf::nn {
namespace {

using at::IntArrayRef;
using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The geometry of the windows.
struct Windows {
  Pair kernel, stride, padding;
};

// [batch, channels, rows, columns] -> [position, window, batch].
Tensor windows_of(const Tensor& x, const Windows& how) {
  Tensor last = x.permute({1, 2, 3, 0});
  if (how.padding[0] > 0 || how.padding[1] > 0)
    last = at::constant_pad_nd(last, {0, 0, how.padding[1], how.padding[1],
                                      how.padding[0], how.padding[0]});
  last = last.contiguous()
             .unfold(1, how.kernel[0], how.stride[0])
             .unfold(2, how.kernel[1], how.stride[1]);
  return last.permute({1, 2, 0, 4, 5, 3})
      .reshape({last.size(1) * last.size(2),
                x.size(1) * how.kernel[0] * how.kernel[1], x.size(0)});
}

// The adjoint of windows_of(): adds the windows [rows, columns, channels,
// kernel rows, kernel columns, batch] where they overlap.
Tensor overlap(const Tensor& windows, const Windows& how, IntArrayRef image) {
  const auto part = [&](const Tensor& canvas, int axis, std::int64_t first) {
    const auto last = first + how.stride[axis] * (windows.size(axis) - 1) + 1;
    return canvas.slice(axis + 1, first, last, how.stride[axis]);
  };
  const Tensor canvas =
      at::zeros({windows.size(2), image[0] + 2 * how.padding[0],
                 image[1] + 2 * how.padding[1], windows.size(5)},
                windows.options());
  for (std::int64_t i = 0; i < how.kernel[0]; ++i)
    for (std::int64_t j = 0; j < how.kernel[1]; ++j)
      part(part(canvas, 0, i), 1, j)
          .add_(windows.select(4, j).select(3, i).permute({2, 0, 1, 3}));
  return canvas.narrow(1, how.padding[0], image[0])
      .narrow(2, how.padding[1], image[1])
      .permute({3, 0, 1, 2})
      .contiguous();
}

// [out channels, window, rows, columns] -> [position, out channels, window].
Tensor by_position(const Tensor& weight) {
  return weight.flatten(2).permute({2, 0, 1});
}

// [batch, numbers, rows, columns] -> [position, numbers, batch].
Tensor batch_last(const Tensor& y) { return y.flatten(2).permute({2, 1, 0}); }

Tensor connect_whole(const Tensor& x, const Tensor& weight,
                     const Windows& how) {
  const Tensor y = at::bmm(by_position(weight), windows_of(x, how));
  return y.permute({2, 1, 0}).contiguous().view(
      {x.size(0), weight.size(0), weight.size(2), weight.size(3)});
}

Tensor transposed_whole(const Tensor& y, const Tensor& weight,
                        const Windows& how, IntArrayRef image) {
  const Tensor windows =
      at::bmm(by_position(weight).transpose(1, 2), batch_last(y));
  const std::int64_t channels =
      weight.size(1) / (how.kernel[0] * how.kernel[1]);
  return overlap(windows.view({weight.size(2), weight.size(3), channels,
                               how.kernel[0], how.kernel[1], y.size(0)}),
                 how, image);
}

// The gradient of <connect(x, weight), y> with respect to the weight.
Tensor weight_gradient(const Tensor& x, const Tensor& y, const Windows& how) {
  const Tensor windows = windows_of(x, how);
  return at::bmm(batch_last(y), windows.transpose(1, 2))
      .permute({1, 2, 0})
      .contiguous()
      .view({y.size(1), windows.size(1), y.size(2), y.size(3)});
}

void keep(AutogradContext* context, const Tensor& x, const Tensor& weight,
          const Windows& how) {
  context->save_for_backward({x, weight});
  context->saved_data["kernel"] = how.kernel;
  context->saved_data["stride"] = how.stride;
  context->saved_data["padding"] = how.padding;
}

Windows kept(AutogradContext* context) {
  const auto get = [&](const char* name) {
    return context->saved_data[name].toIntVector();
  };
  return {get("kernel"), get("stride"), get("padding")};
}

class Connect : public torch::autograd::Function<Connect> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x,
                        const Tensor& weight, const Windows& how) {
    keep(context, x, weight, how);
    return connect_whole(x, weight, how);
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    const Windows how = kept(context);
    const auto saved = context->get_saved_variables();
    // Under autocast the output has a narrower type than the weights.
    const Tensor y = gradients[0].to(saved[1].scalar_type());
    Tensor x, weight;
    if (context->needs_input_grad(0))
      x = locally_connected2d_transposed(y, saved[1], how.kernel, how.stride,
                                         how.padding,
                                         saved[0].sizes().slice(2));
    if (context->needs_input_grad(1))
      weight = weight_gradient(saved[0].to(y.scalar_type()), y, how);
    return {x, weight, {}};
  }
};

class Transposed : public torch::autograd::Function<Transposed> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& y,
                        const Tensor& weight, const Windows& how,
                        IntArrayRef image) {
    keep(context, y, weight, how);
    return transposed_whole(y, weight, how, image);
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    const Windows how = kept(context);
    const auto saved = context->get_saved_variables();
    const Tensor x = gradients[0].to(saved[1].scalar_type());
    Tensor y, weight;
    if (context->needs_input_grad(0))
      y = locally_connected2d(x, saved[1], how.kernel, how.stride, how.padding);
    if (context->needs_input_grad(1))
      weight = weight_gradient(x, saved[0].to(x.scalar_type()), how);
    return {y, weight, {}, {}};
  }
};

Tensor connect(const Tensor& x, const Tensor& weight, IntArrayRef kernel,
               IntArrayRef stride, IntArrayRef padding) {
  for (std::size_t i = 0; i < 2; ++i) {
    const auto axis = static_cast<std::int64_t>(i) + 2;
    TORCH_CHECK((x.size(axis) + 2 * padding[i] - kernel[i]) / stride[i] + 1 ==
                        weight.size(axis) &&
                    x.size(1) * kernel[0] * kernel[1] == weight.size(1),
                "locally_connected2d: images of ", x.sizes(),
                " do not fit weights of ", weight.sizes());
  }
  return Connect::apply(x, weight,
                        Windows{kernel.vec(), stride.vec(), padding.vec()});
}

Tensor connect_transposed(const Tensor& y, const Tensor& weight,
                          IntArrayRef kernel, IntArrayRef stride,
                          IntArrayRef padding, IntArrayRef image) {
  return Transposed::apply(
      y, weight, Windows{kernel.vec(), stride.vec(), padding.vec()}, image);
}

}  // namespace

// A fragment, since other parts of Sheaf may register operations too.
TORCH_LIBRARY_FRAGMENT(sheaf, library) {
  library.def(
      "locally_connected2d(Tensor x, Tensor weight, int[2] kernel, "
      "int[2] stride, int[2] padding) -> Tensor");
  library.def(
      "locally_connected2d_transposed(Tensor y, Tensor weight, int[2] kernel, "
      "int[2] stride, int[2] padding, int[2] image) -> Tensor");
}

TORCH_LIBRARY_IMPL(sheaf, CompositeImplicitAutograd, library) {
  library.impl("locally_connected2d", connect);
  library.impl("locally_connected2d_transposed", connect_transposed);
}

Tensor locally_connected2d(const Tensor& x, const Tensor& weight,
                           IntArrayRef kernel, IntArrayRef stride,
                           IntArrayRef padding) {
  static const auto operation =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("sheaf::locally_connected2d", "")
          .typed<decltype(connect)>();
  return operation.call(x, weight, kernel, stride, padding);
}

Tensor locally_connected2d_transposed(const Tensor& y, const Tensor& weight,
                                      IntArrayRef kernel, IntArrayRef stride,
                                      IntArrayRef padding, IntArrayRef image) {
  static const auto operation =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("sheaf::locally_connected2d_transposed", "")
          .typed<decltype(connect_transposed)>();
  return operation.call(y, weight, kernel, stride, padding, image);
}

}  // namespace sheaf::nn
