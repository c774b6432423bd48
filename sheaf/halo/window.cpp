#include "sheaf/halo/window.hpp"

#include "sheaf/base/error.hpp"

namespace sheaf::halo {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}
std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return -floor_div(-a, b);
}

void check(const Window& window) {
  SHEAF_CHECK(window.kernel >= 1 && window.stride >= 1 && window.dilation >= 1,
              "a window of kernel ", window.kernel, ", stride ", window.stride,
              " and dilation ", window.dilation,
              " is invalid; each must be at least 1");
  SHEAF_CHECK(window.pad_low >= 0 && window.pad_high >= 0, "paddings of ",
              window.pad_low, " and ", window.pad_high,
              " are invalid; they must be at least 0");
}

// The number of positions before the center of a window.
std::int64_t half(const Window& window) { return (window.extent() - 1) / 2; }

// Cuts of `count` outputs; `first_of(position)` is the first output that
// belongs to that input or a later one. Empty parts at the ends stay empty.
template <class FirstOf>
Cuts cuts_by(const Cuts& inputs, std::int64_t count, FirstOf first_of) {
  std::vector<std::int64_t> positions;
  for (const std::int64_t position : inputs.positions())
    positions.push_back(
        position == 0 ? 0
        : position == inputs.size()
            ? count
            : std::clamp<std::int64_t>(first_of(position), 0, count));
  positions.back() = count;  // also if the axis has no inputs
  return Cuts(std::move(positions));
}

}  // namespace

std::int64_t output_size(const Window& window, std::int64_t inputs) {
  check(window);
  const std::int64_t room =
      inputs + window.pad_low + window.pad_high - window.extent();
  // In ceil mode a window that is too large by less than a stride fits once.
  const bool fits = room >= 0 || (window.ceil_mode && room > -window.stride);
  SHEAF_CHECK(inputs >= 0 && fits, "a window of ", window.extent(),
              " inputs (kernel ", window.kernel, ", dilation ", window.dilation,
              ") does not fit ", inputs, " inputs and paddings of ",
              window.pad_low, " and ", window.pad_high,
              "; use a smaller kernel or more padding");
  if (!window.ceil_mode) return room / window.stride + 1;
  const std::int64_t count = ceil_div(room, window.stride) + 1;
  const bool is_beyond = (count - 1) * window.stride >= inputs + window.pad_low;
  return is_beyond ? count - 1 : count;
}

Interval needed(const Window& window, const Interval& outputs) {
  if (outputs.is_empty()) return {};
  return {window.stride * outputs.begin - window.pad_low,
          window.stride * (outputs.end - 1) - window.pad_low + window.extent()};
}

Padded clamp(const Interval& interval, std::int64_t size) {
  const auto in_image = [&](std::int64_t position) {
    return std::clamp<std::int64_t>(position, 0, size);
  };
  Padded padded;
  padded.inside = {in_image(interval.begin), in_image(interval.end)};
  const std::int64_t padding = interval.size() - padded.inside.size();
  padded.low = padded.inside.is_empty()
                   ? padding
                   : std::max<std::int64_t>(0, -interval.begin);
  padded.high = padding - padded.low;
  return padded;
}

Cuts following_cuts(const Window& window, const Cuts& inputs) {
  return cuts_by(inputs, output_size(window, inputs.size()),
                 [&](std::int64_t position) {
                   return ceil_div(position + window.pad_low - half(window),
                                   window.stride);
                 });
}

Interval interior(const Window& window, const Interval& outputs,
                  const Interval& owned, std::int64_t size) {
  const std::int64_t first =
      ceil_div(owned.begin + window.pad_low, window.stride);
  const std::int64_t last =
      floor_div(owned.end - window.extent() + window.pad_low, window.stride);
  return intersect(outputs, {owned.begin == 0 ? outputs.begin : first,
                             owned.end == size ? outputs.end : last + 1});
}

Interval touching(const Window& window, const Interval& inputs,
                  std::int64_t count) {
  if (inputs.is_empty()) return {};
  return intersect(
      Interval{0, count},
      {ceil_div(inputs.begin + window.pad_low - window.extent() + 1,
                window.stride),
       floor_div(inputs.end - 1 + window.pad_low, window.stride) + 1});
}

std::int64_t transposed_size(const Window& window, std::int64_t inputs,
                             std::int64_t output_padding) {
  check(window);
  const std::int64_t size = (inputs - 1) * window.stride - window.pad_low -
                            window.pad_high + window.extent() + output_padding;
  SHEAF_CHECK(inputs >= 1 && size >= 0 && output_padding >= 0,
              "a transposed window of kernel ", window.kernel, " makes ", size,
              " outputs from ", inputs, " inputs with paddings of ",
              window.pad_low, " and ", window.pad_high,
              "; use less padding or a larger kernel");
  return size;
}

Interval transposed_needed(const Window& window, const Interval& outputs,
                           std::int64_t count) {
  return touching(window, outputs, count);
}

Interval transposed_produced(const Window& window, const Interval& inputs) {
  return needed(window, inputs);
}

Cuts transposed_following_cuts(const Window& window, const Cuts& inputs,
                               std::int64_t output_padding) {
  return cuts_by(inputs, transposed_size(window, inputs.size(), output_padding),
                 [&](std::int64_t position) {
                   return window.stride * position - window.pad_low +
                          half(window);
                 });
}

}  // namespace sheaf::halo
