// Adaptive pooling: a rank receives all inputs of its windows, and pools one
// axis at a time.

#include <torch/torch.h>

#include <algorithm>

#include "sheaf/spatial/ops/windows.hpp"
#include "sheaf/spatial/split/dispatch.hpp"

namespace sheaf::spatial {
namespace {

using Sizes = std::vector<std::int64_t>;

std::vector<AdaptiveAxis> adaptive_axes(const at::Tensor& given,
                                        const Sizes& outputs) {
  std::vector<AdaptiveAxis> axes;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    axes.push_back({given.size(given.dim() -
                               static_cast<std::int64_t>(outputs.size() - i)),
                    outputs[i]});
  return axes;
}

// The positions of each window of this rank, relative to `first_place`:
// [outputs, size of the largest window]. Shorter windows repeat their last
// position.
at::Tensor places_of_windows(const AdaptiveAxis& axis,
                             const halo::Interval& outputs,
                             std::int64_t first_place) {
  std::int64_t widest = 0;
  for (std::int64_t o = outputs.begin; o < outputs.end; ++o)
    widest = std::max(widest, axis.window(o).size());
  Sizes places;
  for (std::int64_t o = outputs.begin; o < outputs.end; ++o)
    for (std::int64_t k = 0; k < widest; ++k)
      places.push_back(
          std::min(axis.window(o).begin + k, axis.window(o).end - 1) -
          first_place);
  return at::tensor(places, at::kLong).view({outputs.size(), widest});
}

// Extracts the windows: `axis` becomes two axes, outputs and positions.
at::Tensor windows_along(const at::Tensor& from, std::int64_t axis,
                         const at::Tensor& places) {
  Sizes sizes = from.sizes().vec();
  sizes[static_cast<std::size_t>(axis)] = places.size(0);
  sizes.insert(sizes.begin() + axis + 1, places.size(1));
  return from.index_select(axis, places.flatten().to(from.device()))
      .view(sizes);
}

// Reshapes a table to be combined with a result of windows_along() of `dim`
// axes.
at::Tensor shaped_along(const at::Tensor& table, std::int64_t axis,
                        std::int64_t dim) {
  Sizes sizes(static_cast<std::size_t>(dim), 1);
  sizes[static_cast<std::size_t>(axis)] = table.size(0);
  if (table.dim() > 1)
    sizes[static_cast<std::size_t>(axis) + 1] = table.size(1);
  return table.view(sizes);
}

at::Tensor average_along(const at::Tensor& from, std::int64_t axis,
                         const AdaptiveAxis& pooled,
                         const halo::Interval& outputs,
                         std::int64_t first_place) {
  const at::Tensor places = places_of_windows(pooled, outputs, first_place);
  const at::Tensor windows = windows_along(from, axis, places);
  std::vector<double> counts;
  for (std::int64_t o = outputs.begin; o < outputs.end; ++o)
    counts.push_back(static_cast<double>(pooled.window(o).size()));
  const at::Tensor count = at::tensor(counts, at::kDouble);
  const at::Tensor is_again =
      at::arange(places.size(1)).unsqueeze(0) >= count.unsqueeze(1);
  return windows
             .masked_fill(
                 shaped_along(is_again, axis, windows.dim()).to(from.device()),
                 0)
             .sum(axis + 1) /
         shaped_along(count, axis, from.dim()).to(from.options());
}

// The values, and their linear indices in the image.
struct Maxima {
  at::Tensor values, indices;
};

// Of equal values, the first one is chosen, as in a single process: the axes
// are processed from last to first, so that rows take precedence over columns.
Maxima max_along(const Maxima& from, std::int64_t axis,
                 const AdaptiveAxis& pooled, const halo::Interval& outputs,
                 std::int64_t first_place) {
  const at::Tensor places = places_of_windows(pooled, outputs, first_place);
  const auto [values, at] =
      windows_along(from.values, axis, places).max(axis + 1);
  const at::Tensor indices = windows_along(from.indices, axis, places)
                                 .gather(axis + 1, at.unsqueeze(axis + 1))
                                 .squeeze(axis + 1);
  return {values, indices};
}

// The linear indices of this rank's positions, broadcast over the other axes.
at::Tensor numbers_of_places(const AdaptivePlan& plan,
                             const at::Tensor& input) {
  at::Tensor numbers = at::zeros({1}, at::kLong);
  const std::int64_t first =
      input.dim() - static_cast<std::int64_t>(plan.axes.size());
  for (std::size_t i = 0; i < plan.axes.size(); ++i) {
    const at::Tensor along =
        at::arange(plan.places[i].begin, plan.places[i].end);
    numbers = numbers.unsqueeze(-1) * plan.axes[i].inputs + along;
  }
  Sizes shape(static_cast<std::size_t>(first), 1);
  for (const halo::Interval& places : plan.places)
    shape.push_back(places.size());
  return numbers.view(shape).expand(input.sizes()).to(input.device());
}

// Even windows are the same as those of ordinary pooling.
at::Tensor even_average(const at::Tensor& given,
                        const std::vector<AdaptiveAxis>& axes) {
  Sizes kernel;
  for (const AdaptiveAxis& axis : axes)
    kernel.push_back(axis.inputs / axis.outputs);
  const Sizes none(kernel.size(), 0);
  if (kernel.size() == 1) return at::avg_pool1d(given, kernel, kernel, none);
  if (kernel.size() == 2) return at::avg_pool2d(given, kernel, kernel, none);
  return at::avg_pool3d(given, kernel, kernel, none);
}

at::Tensor global_average(const at::Tensor& given, std::size_t axes) {
  Sizes last;
  for (std::size_t i = 0; i < axes; ++i)
    last.push_back(-1 - static_cast<std::int64_t>(i));
  return given.mean(last, /*keepdim=*/true);
}

template <std::size_t kAxes>
void adaptive_average_pool(Call& call) {
  const at::Tensor given = image_of(call, kAxes);
  const auto axes = adaptive_axes(given, call.integers(1, kAxes));
  if (std::all_of(axes.begin(), axes.end(),
                  [](const AdaptiveAxis& axis) { return axis.outputs == 1; }))
    return call.give(global_average(given, kAxes));
  if (std::all_of(axes.begin(), axes.end(),
                  [](const AdaptiveAxis& axis) { return axis.is_even(); }))
    return call.give(even_average(given, axes));
  const Split& split = split_of(given);
  const AdaptivePlan plan = plan_adaptive(split, axes);
  at::Tensor local = with_halo(local_of(given), split, plan.needs);
  if (plan.output.has_nothing())
    return call.give(make_split(
        nothing_from({local}, plan.output.local_sizes()), plan.output));
  for (std::size_t i = kAxes; i-- > 0;)
    local =
        average_along(local, given.dim() - static_cast<std::int64_t>(kAxes - i),
                      axes[i], plan.mine[i], plan.places[i].begin);
  call.give(make_split(local, plan.output));
}

template <std::size_t kAxes>
void adaptive_max_pool(Call& call) {
  const at::Tensor given = image_of(call, kAxes);
  const Split& split = split_of(given);
  const AdaptivePlan plan =
      plan_adaptive(split, adaptive_axes(given, call.integers(1, kAxes)));
  const at::Tensor local = with_halo(local_of(given), split, plan.needs);
  Maxima found;
  if (plan.output.has_nothing()) {
    const Sizes sizes = plan.output.local_sizes();
    found = {nothing_from({local}, sizes),
             at::zeros(sizes, local.options().dtype(at::kLong))};
  } else {
    found = {local, numbers_of_places(plan, local)};
    for (std::size_t i = kAxes; i-- > 0;)
      found =
          max_along(found, given.dim() - static_cast<std::int64_t>(kAxes - i),
                    plan.axes[i], plan.mine[i], plan.places[i].begin);
  }
  call.give(make_split(found.values, plan.output),
            make_split(found.indices, plan.output));
}

}  // namespace

void add_adaptive_operations(Operations& table) {
  table.emplace("aten::adaptive_avg_pool1d", adaptive_average_pool<1>);
  table.emplace("aten::adaptive_avg_pool2d", adaptive_average_pool<2>);
  table.emplace("aten::adaptive_avg_pool3d", adaptive_average_pool<3>);
  table.emplace("aten::adaptive_max_pool1d", adaptive_max_pool<1>);
  table.emplace("aten::adaptive_max_pool2d", adaptive_max_pool<2>);
  table.emplace("aten::adaptive_max_pool3d", adaptive_max_pool<3>);
}

}  // namespace sheaf::spatial
