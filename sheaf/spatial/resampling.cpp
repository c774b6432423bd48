#include "sheaf/spatial/resampling.hpp"

#include <torch/torch.h>

#include <algorithm>

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

// A probe is an image of the axis in question, then axes of size 1.
Sizes probe_sizes(std::int64_t samples, std::int64_t size,
                  const NearestKernel& kernel) {
  Sizes sizes{samples, kernel.has_one_channel ? 1 : 2, size};
  sizes.resize(2 + kernel.image_axes, 1);
  return sizes;
}

at::Tensor upsampled(const at::Tensor& x, const ResampledAxis& axis,
                     const NearestKernel& kernel) {
  const auto scale = as_libtorch(axis.scale);
  const std::int64_t to = axis.outputs;
  if (kernel.image_axes == 1)
    return kernel.is_exact ? at::_upsample_nearest_exact1d(x, {to}, scale)
                           : at::upsample_nearest1d(x, {to}, scale);
  if (kernel.image_axes == 2)
    return kernel.is_exact ? at::_upsample_nearest_exact2d(x, {to, 1}, scale)
                           : at::upsample_nearest2d(x, {to, 1}, scale);
  return kernel.is_exact ? at::_upsample_nearest_exact3d(x, {to, 1, 1}, scale)
                         : at::upsample_nearest3d(x, {to, 1, 1}, scale);
}

at::Tensor upsampled_backward(const at::Tensor& dy, const Sizes& from,
                              const ResampledAxis& axis,
                              const NearestKernel& kernel) {
  const auto scale = as_libtorch(axis.scale);
  const Sizes to(dy.sizes().begin() + 2, dy.sizes().end());
  if (kernel.image_axes == 1)
    return kernel.is_exact
               ? at::_upsample_nearest_exact1d_backward(dy, to, from, scale)
               : at::upsample_nearest1d_backward(dy, to, from, scale);
  if (kernel.image_axes == 2)
    return kernel.is_exact
               ? at::_upsample_nearest_exact2d_backward(dy, to, from, scale)
               : at::upsample_nearest2d_backward(dy, to, from, scale);
  return kernel.is_exact
             ? at::_upsample_nearest_exact3d_backward(dy, to, from, scale)
             : at::upsample_nearest3d_backward(dy, to, from, scale);
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
  const Sizes sizes = probe_sizes(digits, axis.inputs, kernel);
  std::vector<std::int64_t> probe;
  for (std::int64_t digit = 0; digit < digits; ++digit)
    for (std::int64_t channel = 0; channel < sizes[1]; ++channel)
      for (std::int64_t place = 0; place < axis.inputs; ++place)
        probe.push_back((place >> (kDigitBits * digit)) %
                        (std::int64_t{1} << kDigitBits));
  const std::vector<std::int64_t> found = as_list(upsampled(
      at::tensor(probe, at::kLong).view(sizes).to(kernel.type), axis, kernel));
  std::vector<std::int64_t> places(static_cast<std::size_t>(axis.outputs));
  for (std::int64_t digit = 0; digit < digits; ++digit)
    for (std::int64_t o = 0; o < axis.outputs; ++o)
      places[static_cast<std::size_t>(o)] +=
          found[static_cast<std::size_t>(digit * sizes[1] * axis.outputs + o)]
          << (kDigitBits * digit);
  return places;
}

// The gradient of ones counts how many outputs give theirs to each input; as
// places ascend, that says which.
std::vector<std::int64_t> places_of_gradients(const ResampledAxis& axis,
                                              const NearestKernel& kernel) {
  const bool is_wide = kernel.type == at::kFloat || kernel.type == at::kDouble;
  const at::Tensor ones = at::ones(probe_sizes(1, axis.outputs, kernel),
                                   is_wide ? kernel.type : at::kFloat);
  const auto counts =
      as_list(upsampled_backward(ones, probe_sizes(1, axis.inputs, kernel),
                                 axis, kernel)
                  .select(1, 0)
                  .flatten());
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
