// Sums and means, and operations along axes that are not cut.

#include <torch/torch.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/spatial/split/dispatch.hpp"
#include "sheaf/spatial/split/halo_autograd.hpp"

namespace sheaf::spatial {
namespace {

using Sizes = std::vector<std::int64_t>;

// The axes in the argument `dim`; empty if it is absent.
Sizes named_axes(Call& call, const at::Tensor& given) {
  Sizes axes;
  const auto place = call.place("dim");
  if (place && call[*place].isInt()) axes = {call[*place].toInt()};
  if (place && call[*place].isIntList()) axes = call[*place].toIntVector();
  for (std::int64_t& axis : axes) axis = front_axis(axis, given.dim());
  return axes;
}

Sizes axes_or_all(Call& call, const at::Tensor& given) {
  Sizes axes = named_axes(call, given);
  if (axes.empty())
    for (std::int64_t axis = 0; axis < given.dim(); ++axis)
      axes.push_back(axis);
  return axes;
}

bool has(const Sizes& axes, std::int64_t axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// The split without the reduced axes; either all cut axes are among them, or
// none.
Split reduced(const Split& split, const Sizes& axes, bool keeps) {
  Split result = split;
  result.sizes.clear();
  for (std::int64_t axis = 0;
       axis < static_cast<std::int64_t>(split.sizes.size()); ++axis) {
    const int cut = split.grid_axis(axis);
    if (has(axes, axis) && !keeps) continue;
    if (cut >= 0)
      result.cut_axes[static_cast<std::size_t>(cut)] =
          static_cast<int>(result.sizes.size());
    result.sizes.push_back(
        has(axes, axis) ? 1 : split.sizes[static_cast<std::size_t>(axis)]);
  }
  return result;
}

// The sum along some axes: whole if all cut axes are reduced, otherwise split.
at::Tensor sum_along(Call& call, const at::Tensor& given, const Sizes& axes,
                     bool keeps, std::optional<at::ScalarType> type) {
  const Split& split = split_of(given);
  if (flat_from(given) >= 0 &&
      axes.size() != static_cast<std::size_t>(given.dim()))
    call.refuse("it sums only some axes of a flattened image");
  Sizes of_local = axes;
  if (flat_from(given) >= 0) {
    of_local.clear();
    for (std::size_t i = 0; i < split.sizes.size(); ++i)
      of_local.push_back(static_cast<std::int64_t>(i));
  }
  std::size_t count = 0;
  for (const int cut : split.cut_axes)
    if (cut >= 0 && has(of_local, cut)) ++count;
  const at::Tensor input = type ? local_of(given).to(*type) : local_of(given);
  const at::Tensor local = input.sum(of_local, keeps);
  if (count == 0) return make_split(local, reduced(split, axes, keeps));
  if (count < split.cut_axes.size())
    call.refuse("it reduces some of the cut axes, but not all");
  const at::Tensor sum = sum_over_tiles(local, split.tiles);
  // A flattened tensor has fewer axes than its part.
  return keeps && flat_from(given) >= 0
             ? sum.view(Sizes(static_cast<std::size_t>(given.dim()), 1))
             : sum;
}

double count_along(const at::Tensor& given, const Sizes& axes) {
  double count = 1;
  for (const std::int64_t axis : axes)
    count *= static_cast<double>(given.size(axis));
  return count;
}

std::optional<at::ScalarType> wanted_type(Call& call) {
  const auto place = call.place("dtype");
  return place && call[*place].isInt()
             ? std::optional(call[*place].toScalarType())
             : std::nullopt;
}

// sum(self, dtype) and sum(self, dim, keepdim, dtype).
template <bool kMean>
void sum(Call& call) {
  const at::Tensor given = call.tensor(0);
  const auto keeps = call.place("keepdim");
  const Sizes axes = axes_or_all(call, given);
  const at::Tensor result = sum_along(
      call, given, axes, keeps && call[*keeps].toBool(), wanted_type(call));
  call.give(kMean ? result / count_along(given, axes) : result);
}

// Along axes that are not cut, positions are independent of each other.
void along_axes(Call& call) {
  const at::Tensor given = call.tensor(0);
  const Split split = split_of(given);
  const Sizes axes = named_axes(call, given);
  if (axes.empty()) call.refuse("it reduces all axes at once; pass an axis");
  for (const std::int64_t axis : axes)
    if (split.is_cut(axis)) call.refuse("the axis is cut");
  call[0] = local_of(given);
  call.compute();
  for (std::size_t i = 0; i < call.op().schema().returns().size(); ++i) {
    const at::Tensor local = call.result(i).toTensor();
    const bool is_reduced = local.dim() < given.dim();
    Split result = reduced(split, is_reduced ? axes : Sizes{}, false);
    if (!is_reduced)
      for (const std::int64_t axis : axes)
        result.sizes[static_cast<std::size_t>(axis)] = local.size(axis);
    call.result(i) = make_split(local, result);
  }
}

// max() and min() of two tensors.
template <bool kMax>
void larger_or_smaller(Call& call) {
  const at::Tensor a = call.tensor(0), b = call.tensor(1);
  call.give(kMax ? at::maximum(a, b) : at::minimum(a, b));
}

}  // namespace

void add_reduce_operations(Operations& table) {
  table.emplace("aten::sum", Rule{sum<false>, Flat::kTaken});
  table.emplace("aten::mean", Rule{sum<true>, Flat::kTaken});
  table.emplace("aten::max.other", Rule{larger_or_smaller<true>, Flat::kTaken});
  table.emplace("aten::min.other",
                Rule{larger_or_smaller<false>, Flat::kTaken});
  for (const char* name : {"_softmax", "_log_softmax", "argmax", "argmin",
                           "max", "min", "cumsum", "logsumexp", "topk"})
    table.emplace(concat("aten::", name), along_axes);
}

}  // namespace sheaf::spatial
