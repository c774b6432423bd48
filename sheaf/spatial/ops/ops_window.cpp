// Convolution and pooling.

#include <torch/torch.h>

#include <limits>

#include "sheaf/base/error.hpp"
#include "sheaf/spatial/ops/overlapped_conv.hpp"
#include "sheaf/spatial/ops/windows.hpp"
#include "sheaf/spatial/split/dispatch.hpp"

namespace sheaf::spatial {
namespace {

using Sizes = std::vector<std::int64_t>;

Sizes kernel_of(const at::Tensor& weight) {
  return {weight.sizes().begin() + 2, weight.sizes().end()};
}

// The arguments of aten::convolution.
struct ConvolutionArguments {
  explicit ConvolutionArguments(Call& call)
      : weight(call.tensor(1)),
        bias(call.tensor(2)),
        axes(static_cast<std::size_t>(weight.dim()) - 2),
        given(image_of(call, axes)),
        stride(call.integers(3, axes)),
        padding(call.integers(4, axes)),
        dilation(call.integers(5, axes)),
        windows(
            windows_of(kernel_of(weight), stride, padding, dilation, false)),
        groups(call[8].toInt()) {}

  const at::Tensor weight;
  const at::Tensor bias;
  const std::size_t axes;
  const at::Tensor given;
  const Sizes stride;
  const Sizes padding;
  const Sizes dilation;
  const std::vector<halo::Window> windows;
  const std::int64_t groups;
};

void convolve(Call& call) {
  const ConvolutionArguments one(call);
  const auto& [weight, bias, axes, given, stride, given_padding, dilation,
               windows, groups] = one;
  const Split& split = split_of(given);
  Sizes padding = given_padding;
  WindowPlan plan = plan_windows(split, windows);
  plan.output.sizes[plan.output.sizes.size() - axes - 1] = weight.size(0);
  // libtorch then uses the weight's memory order for the output, whatever the
  // input's order.
  if (may_be_reordered(weight)) plan.output.may_be_reordered = true;
  const ConvolutionTask task{split, windows, plan, groups};
  if (split.tiles->is_overlapping() && can_overlap(task))
    return call.give(
        make_split(overlapped_convolution(local_of(given), weight, bias, task),
                   plan.output));
  const at::Tensor input =
      window_input(local_of(given), split, plan, 0, /*pads_others=*/false);
  const auto first = given.dim() - static_cast<std::int64_t>(axes);
  for (std::size_t i = 0; i < axes; ++i)
    if (split.is_cut(first + static_cast<std::int64_t>(i))) padding[i] = 0;
  const Sizes sizes = plan.output.local_sizes();
  const bool is_empty = plan.output.has_nothing();
  call.give(make_split(
      is_empty ? nothing_from({input, weight, bias}, sizes)
               : at::convolution(input, weight, bias, stride, padding, dilation,
                                 false, Sizes(axes, 0), groups),
      plan.output));
}

void convolve_transposed(Call& call) {
  const ConvolutionArguments one(call);
  const auto& [weight, bias, axes, given, stride, padding, dilation, windows,
               groups] = one;
  const Split& split = split_of(given);
  const Sizes more = call.integers(7, axes);
  TransposedPlan plan = plan_transposed(split, windows, more);
  const std::size_t channels = split.sizes.size() - axes - 1;
  plan.output.sizes[channels] = weight.size(1) * groups;
  const at::Tensor input = with_halo(local_of(given), split, plan.needs);
  const Sizes sizes = plan.output.local_sizes();
  at::Tensor result =
      input.numel() == 0
          ? nothing_from({input, weight}, {0}).sum().expand(sizes)
          : own_outputs(
                at::convolution(input, weight, {}, stride, Sizes(axes, 0),
                                dilation, true, Sizes(axes, 0), groups),
                plan, windows);
  if (bias.defined()) {
    Sizes per_channel(sizes.size(), 1);
    per_channel[channels] = -1;
    result = result + bias.view(per_channel);
  }
  call.give(make_split(result, plan.output));
}

void convolution(Call& call) {
  if (call[6].toBool())
    convolve_transposed(call);
  else
    convolve(call);
}

at::Tensor max_pool(const at::Tensor& input, const Sizes& kernel,
                    const Sizes& stride, const Sizes& dilation) {
  const Sizes none(kernel.size(), 0);
  if (kernel.size() == 1)
    return at::max_pool1d(input, kernel, stride, none, dilation);
  if (kernel.size() == 2)
    return at::max_pool2d(input, kernel, stride, none, dilation);
  return at::max_pool3d(input, kernel, stride, none, dilation);
}

template <std::size_t kAxes>
void max_pool(Call& call) {
  const at::Tensor given = image_of(call, kAxes);
  const Split& split = split_of(given);
  const Sizes kernel = call.integers(1, kAxes);
  Sizes stride = call.integers(2, kAxes);
  if (stride.empty()) stride = kernel;
  const Sizes dilation = call.integers(4, kAxes);
  const WindowPlan plan =
      plan_windows(split, windows_of(kernel, stride, call.integers(3, kAxes),
                                     dilation, call[5].toBool()));
  const at::Tensor input =
      window_input(local_of(given), split, plan,
                   -std::numeric_limits<double>::infinity(), true);
  const Sizes sizes = plan.output.local_sizes();
  const bool is_empty = plan.output.has_nothing();
  call.give(make_split(is_empty ? nothing_from({input}, sizes)
                                : max_pool(input, kernel, stride, dilation),
                       plan.output));
}

// The sum of each window.
at::Tensor sum_pool(const at::Tensor& input, const Sizes& kernel,
                    const Sizes& stride) {
  const Sizes none(kernel.size(), 0);
  if (kernel.size() == 1)
    return at::avg_pool2d(input.unsqueeze(-2), {1, kernel[0]}, {1, stride[0]},
                          {0, 0}, false, true, 1)
        .squeeze(-2);
  if (kernel.size() == 2)
    return at::avg_pool2d(input, kernel, stride, none, false, true, 1);
  return at::avg_pool3d(input, kernel, stride, none, false, true, 1);
}

// The number of inputs that count in the window of each output.
at::Tensor counts_of(const halo::Window& window, const halo::Interval& outputs,
                     std::int64_t size, bool counts_padding,
                     const at::TensorOptions& options) {
  std::vector<double> counts;
  for (std::int64_t o = outputs.begin; o < outputs.end; ++o) {
    const halo::Interval all{
        o * window.stride - window.pad_low,
        o * window.stride - window.pad_low + window.kernel};
    const halo::Interval inside =
        counts_padding
            ? intersect(all, {-window.pad_low, size + window.pad_high})
            : intersect(all, {0, size});
    counts.push_back(static_cast<double>(inside.size()));
  }
  return at::tensor(counts, at::kDouble).to(options);
}

template <std::size_t kAxes>
void average_pool(Call& call) {
  const at::Tensor given = image_of(call, kAxes);
  const Split& split = split_of(given);
  const Sizes kernel = call.integers(1, kAxes);
  Sizes stride = call.integers(2, kAxes);
  if (stride.empty()) stride = kernel;
  const auto windows =
      windows_of(kernel, stride, call.integers(3, kAxes), {}, call[4].toBool());
  const bool counts_padding = call[5].toBool();
  const WindowPlan plan = plan_windows(split, windows);
  const at::Tensor input = window_input(local_of(given), split, plan, 0, true);
  const Sizes sizes = plan.output.local_sizes();
  const bool is_empty = plan.output.has_nothing();
  if (is_empty)
    return call.give(make_split(nothing_from({input}, sizes), plan.output));
  at::Tensor result = sum_pool(input, kernel, stride);
  if (call.count() > 6 && !call[6].isNone())
    return call.give(
        make_split(result / static_cast<double>(call[6].toInt()), plan.output));
  for (std::size_t i = 0; i < kAxes; ++i) {
    const auto axis = given.dim() - static_cast<std::int64_t>(kAxes - i);
    Sizes shape(static_cast<std::size_t>(given.dim()), 1);
    shape[static_cast<std::size_t>(axis)] = -1;
    result = result / counts_of(windows[i], plan.output.interval(axis),
                                split.sizes[static_cast<std::size_t>(axis)],
                                counts_padding, result.options())
                          .view(shape);
  }
  call.give(make_split(result, plan.output));
}

}  // namespace

// The input tensor, whose images are its last axes.
at::Tensor image_of(Call& call, std::size_t axes) {
  const at::Tensor given = call.tensor(0);
  if (!is_split(given)) call.refuse("its weights are split, its input is not");
  for (const int cut : split_of(given).cut_axes)
    if (cut >= 0 && cut < given.dim() - static_cast<std::int64_t>(axes))
      call.refuse("samples or channels are cut");
  return given;
}

std::vector<halo::Window> windows_of(const Sizes& kernel, const Sizes& stride,
                                     const Sizes& padding,
                                     const Sizes& dilation, bool ceil_mode) {
  std::vector<halo::Window> windows;
  for (std::size_t i = 0; i < kernel.size(); ++i)
    windows.push_back({.kernel = kernel[i],
                       .stride = stride.empty() ? kernel[i] : stride[i],
                       .pad_low = padding[i],
                       .pad_high = padding[i],
                       .dilation = dilation.empty() ? 1 : dilation[i],
                       .ceil_mode = ceil_mode});
  return windows;
}

void add_window_operations(Operations& table) {
  table.emplace("aten::convolution", convolution);
  table.emplace("aten::max_pool1d", max_pool<1>);
  table.emplace("aten::max_pool2d", max_pool<2>);
  table.emplace("aten::max_pool3d", max_pool<3>);
  table.emplace("aten::avg_pool1d", average_pool<1>);
  table.emplace("aten::avg_pool2d", average_pool<2>);
  table.emplace("aten::avg_pool3d", average_pool<3>);
}

}  // namespace sheaf::spatial
