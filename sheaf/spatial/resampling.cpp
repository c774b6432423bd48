#include "sheaf/spatial/resampling.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <array>

#include "sheaf/base/error.hpp"

namespace sheaf::spatial {
namespace {

using Sizes = std::vector<std::int64_t>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// As libtorch's own kind of optional, which depends on its version.
auto as_libtorch(const std::optional<double>& scale) {
  return (scale ? c10::IValue(*scale) : c10::IValue()).toOptional<double>();
}

// A probe is an image of the axis in question; other axes are as short as they
// can be without another kernel being taken.
Sizes probe_axes(std::int64_t size, const NearestKernel& kernel) {
  Sizes sizes(kernel.image_axes, kernel.is_thin ? 1 : 2);
  sizes[kernel.axis] = size;
  return sizes;
}

Sizes probe_sizes(std::int64_t samples, std::int64_t size,
                  const NearestKernel& kernel) {
  constexpr std::int64_t kMostChannels = 8;
  Sizes sizes{samples, std::min(kernel.channels, kMostChannels)};
  const Sizes axes = probe_axes(size, kernel);
  sizes.insert(sizes.end(), axes.begin(), axes.end());
  return sizes;
}

at::Tensor in_memory_order(const at::Tensor& x, const NearestKernel& kernel) {
  if (!kernel.is_channels_last || x.dim() < 4) return x.contiguous();
  return x.contiguous(x.dim() == 4 ? at::MemoryFormat::ChannelsLast
                                   : at::MemoryFormat::ChannelsLast3d);
}

// Of the first channel, along the axis: samples x size.
at::Tensor along_axis(const at::Tensor& image, const NearestKernel& kernel) {
  at::Tensor part = image.select(1, 0);
  for (std::size_t axis = kernel.image_axes; axis-- > 0;)
    if (axis != kernel.axis)
      part = part.select(static_cast<std::int64_t>(axis) + 1, 0);
  return part;
}

// By axis, as libtorch's functions take them.
using Scale = decltype(as_libtorch(std::nullopt));
std::array<Scale, 3> scales_of(const ResampledAxis& axis,
                               const NearestKernel& kernel) {
  std::array<Scale, 3> scales;
  scales[kernel.axis] = as_libtorch(axis.scale);
  return scales;
}

at::Tensor upsampled(const at::Tensor& given, const ResampledAxis& axis,
                     const NearestKernel& kernel) {
  const at::Tensor x = in_memory_order(given, kernel);
  const Sizes to = probe_axes(axis.outputs, kernel);
  const auto [a, b, c] = scales_of(axis, kernel);
  if (kernel.image_axes == 1)
    return kernel.is_exact ? at::_upsample_nearest_exact1d(x, to, a)
                           : at::upsample_nearest1d(x, to, a);
  if (kernel.image_axes == 2)
    return kernel.is_exact ? at::_upsample_nearest_exact2d(x, to, a, b)
                           : at::upsample_nearest2d(x, to, a, b);
  return kernel.is_exact ? at::_upsample_nearest_exact3d(x, to, a, b, c)
                         : at::upsample_nearest3d(x, to, a, b, c);
}

at::Tensor upsampled_backward(const at::Tensor& given, const Sizes& from,
                              const ResampledAxis& axis,
                              const NearestKernel& kernel) {
  const at::Tensor dy = in_memory_order(given, kernel);
  const Sizes to(dy.sizes().begin() + 2, dy.sizes().end());
  const auto [a, b, c] = scales_of(axis, kernel);
  if (kernel.image_axes == 1)
    return kernel.is_exact
               ? at::_upsample_nearest_exact1d_backward(dy, to, from, a)
               : at::upsample_nearest1d_backward(dy, to, from, a);
  if (kernel.image_axes == 2)
    return kernel.is_exact
               ? at::_upsample_nearest_exact2d_backward(dy, to, from, a, b)
               : at::upsample_nearest2d_backward(dy, to, from, a, b);
  return kernel.is_exact
             ? at::_upsample_nearest_exact3d_backward(dy, to, from, a, b, c)
             : at::upsample_nearest3d_backward(dy, to, from, a, b, c);
}

std::vector<std::int64_t> as_list(const at::Tensor& numbers) {
  const at::Tensor list = numbers.to(at::kLong).contiguous();
  const auto* first = list.data_ptr<std::int64_t>();
  return {first, first + list.numel()};
}

// Each sample of the probe has seven bits of the places' numbers: every type
// holds them exactly.
constexpr int kDigitBits = 7;

std::vector<std::int64_t> places_of_outputs(const ResampledAxis& axis,
                                            const NearestKernel& kernel) {
  std::int64_t digits = 1;
  while ((axis.inputs - 1) >> (kDigitBits * digits) > 0) ++digits;
  std::vector<std::int64_t> numbers;
  for (std::int64_t digit = 0; digit < digits; ++digit)
    for (std::int64_t place = 0; place < axis.inputs; ++place)
      numbers.push_back((place >> (kDigitBits * digit)) %
                        (std::int64_t{1} << kDigitBits));
  Sizes along(2 + kernel.image_axes, 1);
  along[0] = digits;
  along[2 + kernel.axis] = axis.inputs;
  const at::Tensor probe =
      at::tensor(numbers, at::kLong)
          .to(kernel.type)
          .view(along)
          .expand(probe_sizes(digits, axis.inputs, kernel));
  const std::vector<std::int64_t> found =
      as_list(along_axis(upsampled(probe, axis, kernel), kernel));
  std::vector<std::int64_t> places(static_cast<std::size_t>(axis.outputs));
  for (std::int64_t digit = 0; digit < digits; ++digit)
    for (std::int64_t o = 0; o < axis.outputs; ++o)
      places[static_cast<std::size_t>(o)] +=
          found[static_cast<std::size_t>(digit * axis.outputs + o)]
          << (kDigitBits * digit);
  return places;
}

// The gradient of ones counts how many outputs give theirs to each input; as
// places ascend, the counts determine the places.
std::vector<std::int64_t> places_of_gradients(const ResampledAxis& axis,
                                              const NearestKernel& kernel) {
  const bool is_wide = kernel.type == at::kFloat || kernel.type == at::kDouble;
  const at::Tensor ones = at::ones(probe_sizes(1, axis.outputs, kernel),
                                   is_wide ? kernel.type : at::kFloat);
  const auto counts = as_list(
      along_axis(upsampled_backward(ones, probe_sizes(1, axis.inputs, kernel),
                                    axis, kernel),
                 kernel));
  std::vector<std::int64_t> places;
  for (std::int64_t input = 0; input < axis.inputs; ++input)
    places.insert(
        places.end(),
        static_cast<std::size_t>(counts[static_cast<std::size_t>(input)]),
        input);
  SHEAF_ASSERT(static_cast<std::int64_t>(places.size()) == axis.outputs,
               "gradients of ", places.size(), " outputs of ", axis.outputs);
  return places;
}

// Entries of a table for some outputs, counted from an input on.
at::Tensor places_in(const std::vector<std::int64_t>& table,
                     const halo::Interval& outputs, std::int64_t begin) {
  const Sizes some(table.begin() + outputs.begin, table.begin() + outputs.end);
  return at::tensor(some, at::kLong) - begin;
}

// Values come from some places, and gradients go to others.
struct Picked : torch::autograd::Function<Picked> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            std::int64_t axis, const at::Tensor& values,
                            const at::Tensor& gradients) {
    context->saved_data["axis"] = axis;
    context->saved_data["sizes"] = input.sizes().vec();
    context->save_for_backward({gradients});
    return input.index_select(axis, values);
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    const at::Tensor dx =
        at::zeros(context->saved_data["sizes"].toIntVector(), dy[0].options());
    return {dx.index_add(context->saved_data["axis"].toInt(),
                         context->get_saved_variables()[0], dy[0]),
            {},
            {},
            {}};
  }
};

}  // namespace

halo::Interval Resampling::needed(const halo::Interval& some) const {
  if (some.is_empty()) return {};
  const auto first = static_cast<std::size_t>(some.begin);
  const auto last = static_cast<std::size_t>(some.end - 1);
  halo::Interval inputs{low[first], low[last] + 1};
  for (const auto* table : {&high, &gradient})
    if (!table->empty())
      inputs = {std::min(inputs.begin, (*table)[first]),
                std::max(inputs.end, (*table)[last] + 1)};
  return inputs;
}

Resampling nearest_resampling(const ResampledAxis& axis,
                              const NearestKernel& kernel) {
  Resampling rule;
  rule.low = places_of_outputs(axis, kernel);
  if (!at::isFloatingType(kernel.type)) return rule;
  rule.gradient = places_of_gradients(axis, kernel);
  if (rule.gradient == rule.low) rule.gradient.clear();
  return rule;
}

Resampling linear_resampling(const ResampledAxis& axis, bool aligns_corners) {
  double ratio = axis.scale ? 1 / *axis.scale
                            : static_cast<double>(axis.inputs) /
                                  static_cast<double>(axis.outputs);
  if (aligns_corners)
    ratio = axis.outputs > 1 ? static_cast<double>(axis.inputs - 1) /
                                   static_cast<double>(axis.outputs - 1)
                             : 0;
  Resampling rule;
  for (std::int64_t o = 0; o < axis.outputs; ++o) {
    const double at =
        aligns_corners
            ? static_cast<double>(o) * ratio
            : std::max(0.0, (static_cast<double>(o) + 0.5) * ratio - 0.5);
    const auto low = std::min(static_cast<std::int64_t>(at), axis.inputs - 1);
    rule.low.push_back(low);
    rule.high.push_back(std::min(low + 1, axis.inputs - 1));
    rule.part_of_high.push_back(at - static_cast<double>(low));
  }
  return rule;
}

at::Tensor resample(const at::Tensor& input, std::int64_t axis,
                    const Resampling& rule, const halo::Interval& outputs,
                    std::int64_t begin) {
  const at::Tensor low = places_in(rule.low, outputs, begin);
  if (!rule.gradient.empty())
    return Picked::apply(input, axis, low,
                         places_in(rule.gradient, outputs, begin));
  const at::Tensor lower = input.index_select(axis, low);
  if (rule.high.empty()) return lower;
  Sizes shape(static_cast<std::size_t>(input.dim()), 1);
  shape[static_cast<std::size_t>(axis)] = -1;
  const std::vector<double> part(rule.part_of_high.begin() + outputs.begin,
                                 rule.part_of_high.begin() + outputs.end);
  const at::Tensor weight =
      at::tensor(part, at::kDouble).to(input.options()).view(shape);
  const at::Tensor upper =
      input.index_select(axis, places_in(rule.high, outputs, begin));
  return lower * (1 - weight) + upper * weight;
}

}  // namespace sheaf::spatial
