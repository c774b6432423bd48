#include "sheaf/spatial/ops/resampling.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <array>

#include "sheaf/base/error.hpp"

namespace sheaf::spatial {
namespace {

using Sizes = std::vector<std::int64_t>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Converts to libtorch's optional type, which depends on its version.
auto as_libtorch(const std::optional<double>& scale) {
  return (scale ? c10::IValue(*scale) : c10::IValue()).toOptional<double>();
}

// A small image that is passed to libtorch's kernel to observe its rounding
// along one axis. The other axes are as short as possible without selecting a
// different kernel.
struct Probe {
  const NearestKernel& kernel;
  std::size_t which;

  const ResampledAxis& axis() const { return kernel.axes[which]; }
  std::size_t axes() const { return kernel.axes.size(); }
  Sizes inputs() const {
    Sizes sizes;
    for (const ResampledAxis& one : kernel.axes)
      sizes.push_back(std::min<std::int64_t>(one.inputs, 2));
    sizes[which] = axis().inputs;
    return sizes;
  }
  Sizes outputs() const {
    Sizes sizes;
    for (const ResampledAxis& one : kernel.axes)
      sizes.push_back(std::min<std::int64_t>(one.outputs, shortest_output()));
    sizes[which] = axis().outputs;
    return sizes;
  }
  Sizes with_channels(std::int64_t samples, const Sizes& image) const {
    constexpr std::int64_t kMostChannels = 8;
    Sizes sizes{samples, std::min(kernel.channels, kMostChannels)};
    sizes.insert(sizes.end(), image.begin(), image.end());
    return sizes;
  }

 private:
  // For two axes, libtorch 2 has a separate kernel for small results, with
  // width plus height of at most 128.
  std::int64_t shortest_output() const {
    constexpr std::int64_t kSmall = 128;
    std::int64_t sum = 0;
    for (const ResampledAxis& one : kernel.axes) sum += one.outputs;
    return sum <= kSmall
               ? 2
               : std::max<std::int64_t>(2, kSmall + 1 - axis().outputs);
  }
};

// For kOther, all samples are duplicated, because gaps after a single line of a
// single sample are ignored.
at::Tensor in_memory_order(const at::Tensor& x, const NearestKernel& kernel) {
  if (kernel.order == MemoryOrder::kOther)
    return at::constant_pad_nd(at::cat({x, x}), {0, 1})
        .narrow(-1, 0, x.size(-1));
  if (kernel.order == MemoryOrder::kUsual || x.dim() < 4) return x.contiguous();
  return x.contiguous(x.dim() == 4 ? at::MemoryFormat::ChannelsLast
                                   : at::MemoryFormat::ChannelsLast3d);
}

// The first channel along the axis: samples x size.
at::Tensor along_axis(const at::Tensor& image, std::size_t which) {
  at::Tensor part = image.select(1, 0);
  for (std::int64_t axis = part.dim() - 1; axis > 0; --axis)
    if (axis != static_cast<std::int64_t>(which) + 1)
      part = part.select(axis, 0);
  return part;
}

// The scales by axis, in the type of libtorch's functions.
using Scale = decltype(as_libtorch(std::nullopt));
std::array<Scale, 3> scales_of(const Probe& probe) {
  std::array<Scale, 3> scales;
  scales[probe.which] = as_libtorch(probe.axis().scale);
  return scales;
}

at::Tensor upsampled(const at::Tensor& image, const Probe& probe) {
  const at::Tensor x = in_memory_order(image, probe.kernel);
  const bool is_exact = probe.kernel.is_exact;
  const Sizes to = probe.outputs();
  const auto [a, b, c] = scales_of(probe);
  if (probe.axes() == 1)
    return is_exact ? at::_upsample_nearest_exact1d(x, to, a)
                    : at::upsample_nearest1d(x, to, a);
  if (probe.axes() == 2)
    return is_exact ? at::_upsample_nearest_exact2d(x, to, a, b)
                    : at::upsample_nearest2d(x, to, a, b);
  return is_exact ? at::_upsample_nearest_exact3d(x, to, a, b, c)
                  : at::upsample_nearest3d(x, to, a, b, c);
}

at::Tensor upsampled_backward(const at::Tensor& gradient, const Probe& probe) {
  const at::Tensor dy = in_memory_order(gradient, probe.kernel);
  const bool is_exact = probe.kernel.is_exact;
  const Sizes to = probe.outputs();
  const Sizes from = probe.with_channels(dy.size(0), probe.inputs());
  const auto [a, b, c] = scales_of(probe);
  if (probe.axes() == 1)
    return is_exact ? at::_upsample_nearest_exact1d_backward(dy, to, from, a)
                    : at::upsample_nearest1d_backward(dy, to, from, a);
  if (probe.axes() == 2)
    return is_exact ? at::_upsample_nearest_exact2d_backward(dy, to, from, a, b)
                    : at::upsample_nearest2d_backward(dy, to, from, a, b);
  return is_exact
             ? at::_upsample_nearest_exact3d_backward(dy, to, from, a, b, c)
             : at::upsample_nearest3d_backward(dy, to, from, a, b, c);
}

std::vector<std::int64_t> as_list(const at::Tensor& numbers) {
  const at::Tensor list = numbers.to(at::kLong).contiguous();
  const auto* first = list.data_ptr<std::int64_t>();
  return {first, first + list.numel()};
}

// Each sample of the probe holds seven bits of the position numbers, which
// every type represents exactly.
constexpr int kDigitBits = 7;

std::vector<std::int64_t> places_of_outputs(const Probe& probe) {
  const ResampledAxis& axis = probe.axis();
  std::int64_t digits = 1;
  while ((axis.inputs - 1) >> (kDigitBits * digits) > 0) ++digits;
  std::vector<std::int64_t> numbers;
  for (std::int64_t digit = 0; digit < digits; ++digit)
    for (std::int64_t place = 0; place < axis.inputs; ++place)
      numbers.push_back((place >> (kDigitBits * digit)) %
                        (std::int64_t{1} << kDigitBits));
  Sizes along(2 + probe.axes(), 1);
  along[0] = digits;
  along[2 + probe.which] = axis.inputs;
  const at::Tensor image =
      at::tensor(numbers, at::kLong)
          .to(probe.kernel.type)
          .view(along)
          .expand(probe.with_channels(digits, probe.inputs()));
  const std::vector<std::int64_t> found =
      as_list(along_axis(upsampled(image, probe), probe.which));
  std::vector<std::int64_t> places(static_cast<std::size_t>(axis.outputs));
  for (std::int64_t digit = 0; digit < digits; ++digit)
    for (std::int64_t o = 0; o < axis.outputs; ++o)
      places[static_cast<std::size_t>(o)] +=
          found[static_cast<std::size_t>(digit * axis.outputs + o)]
          << (kDigitBits * digit);
  return places;
}

// The gradient of ones counts the outputs that contribute to each input.
// Because positions ascend, the counts determine the positions. Only the first
// position of the other axes is counted.
std::vector<std::int64_t> places_of_gradients(const Probe& probe) {
  const at::ScalarType type = probe.kernel.type;
  const bool is_wide = type == at::kFloat || type == at::kDouble;
  at::Tensor ones = at::zeros(probe.with_channels(1, probe.outputs()),
                              is_wide ? type : at::kFloat);
  along_axis(ones, probe.which).fill_(1);
  const auto counts =
      as_list(along_axis(upsampled_backward(ones, probe), probe.which));
  std::vector<std::int64_t> places;
  for (std::int64_t input = 0; input < probe.axis().inputs; ++input)
    places.insert(
        places.end(),
        static_cast<std::size_t>(counts[static_cast<std::size_t>(input)]),
        input);
  SHEAF_ASSERT(static_cast<std::int64_t>(places.size()) == probe.axis().outputs,
               "gradients of ", places.size(), " outputs of ",
               probe.axis().outputs);
  return places;
}

// Entries of a table for some outputs, relative to the input `begin`.
at::Tensor places_in(const std::vector<std::int64_t>& table,
                     const halo::Interval& outputs, std::int64_t begin) {
  const Sizes some(table.begin() + outputs.begin, table.begin() + outputs.end);
  return at::tensor(some, at::kLong) - begin;
}

// Picks values from some positions and sends gradients to others.
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

Resampling nearest_resampling(const NearestKernel& kernel, std::size_t which) {
  const Probe probe{kernel, which};
  Resampling rule;
  rule.low = places_of_outputs(probe);
  if (!at::isFloatingType(kernel.type)) return rule;
  rule.gradient = places_of_gradients(probe);
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
