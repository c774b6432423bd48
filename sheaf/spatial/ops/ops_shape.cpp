// Operations that move or remove axes, or join tensors.

#include <torch/torch.h>

#include <algorithm>
#include <numeric>

#include "sheaf/base/error.hpp"
#include "sheaf/spatial/split/dispatch.hpp"
#include "sheaf/spatial/split/halo_autograd.hpp"

namespace sheaf::spatial {
namespace {

using Sizes = std::vector<std::int64_t>;

std::int64_t product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1},
                         std::multiplies<>());
}

Sizes without_guess(Sizes sizes, std::int64_t count) {
  std::int64_t known = 1;
  for (const std::int64_t size : sizes)
    if (size >= 0) known *= size;
  for (std::int64_t& size : sizes)
    if (size < 0) size = count / std::max<std::int64_t>(1, known);
  return sizes;
}

// For each axis, the number of elements before it, and the number of empty
// axes.
std::vector<std::pair<std::int64_t, int>> elements_before(const Sizes& sizes) {
  std::vector<std::pair<std::int64_t, int>> before{{1, 0}};
  for (const std::int64_t size : sizes) {
    auto [count, empty] = before.back();
    before.emplace_back(count * std::max<std::int64_t>(size, 1),
                        empty + (size == 0 ? 1 : 0));
  }
  return before;
}

// Finds each cut axis among the new sizes, if axes are only joined or split
// beside it; nothing if it is not kept as a separate axis. The new axis must
// have the same size and the same number of elements before it. If several axes
// match, because neighbors have size 1, the one with the same distance from the
// end is chosen, because images are the last axes; otherwise the last.
std::optional<std::vector<int>> kept_axes(const Split& split, const Sizes& to) {
  const auto before = elements_before(split.sizes), after = elements_before(to);
  if (before.back() != after.back()) return std::nullopt;
  const auto shift =
      static_cast<int>(to.size()) - static_cast<int>(split.sizes.size());
  std::vector<int> kept;
  for (const int cut : split.cut_axes) {
    const auto from = static_cast<std::size_t>(cut);
    int found = -1;
    for (std::size_t k = 0; cut >= 0 && k < to.size(); ++k)
      if (to[k] == split.sizes[from] && after[k] == before[from] &&
          found != cut + shift)
        found = static_cast<int>(k);
    if (cut >= 0 && found < 0) return std::nullopt;
    if (found >= 0 && std::find(kept.begin(), kept.end(), found) != kept.end())
      return std::nullopt;
    kept.push_back(found);
  }
  return kept;
}

// Returns the first flattened axis if the sizes are those of the tensor with
// all axes from there on, including all cut axes, joined into one; otherwise
// -1.
int flat_start(const Split& split, const Sizes& to) {
  const auto axes = static_cast<int>(to.size()) - 1;
  if (axes < 0 || axes >= static_cast<int>(split.sizes.size())) return -1;
  for (const int cut : split.cut_axes)
    if (cut >= 0 && cut < axes) return -1;
  for (int i = 0; i < axes; ++i)
    if (to[static_cast<std::size_t>(i)] !=
        split.sizes[static_cast<std::size_t>(i)])
      return -1;
  return axes;
}

// A view of `given`: another part of its memory, or the same in another order.
at::Tensor make_view(const at::Tensor& given, at::Tensor local, Split split,
                     int flat_from = -1) {
  const at::Tensor view =
      make_split(std::move(local), std::move(split), flat_from);
  const bool is_smaller = view.numel() < given.numel();
  if (may_have_gaps(given) || is_smaller) set_gaps(view);
  return view;
}

at::Tensor reshaped(Call& call, const at::Tensor& given, Sizes to) {
  const Split& split = split_of(given);
  to = without_guess(std::move(to), product(split.sizes));
  if (product(to) != product(split.sizes))
    call.refuse(concat("a view as ", at::IntArrayRef(to), " of ",
                       product(split.sizes), " elements"));
  if (to == given.sizes().vec()) return given;
  if (to == split.sizes) return make_view(given, local_of(given), split);
  // A single axis cannot represent two cut axes, even of size 1.
  const int from = flat_start(split, to);
  const auto cuts = std::count_if(split.cut_axes.begin(), split.cut_axes.end(),
                                  [](int axis) { return axis >= 0; });
  if (from >= 0 && cuts > 1)
    return make_view(given, local_of(given), split, from);
  if (const auto kept = kept_axes(split, to)) {
    Split result{split.tiles, to, *kept, split.layout, split.may_be_reordered};
    return make_view(given, local_of(given).reshape(result.local_sizes()),
                     result);
  }
  if (from >= 0) return make_view(given, local_of(given), split, from);
  call.refuse(concat("a view as ", at::IntArrayRef(to),
                     " would mix a cut axis with others"));
}

void view(Call& call) {
  const at::Tensor given = call.tensor(0);
  if (!call[1].isIntList()) call.refuse("it is a view as another type");
  call.give(reshaped(call, given, call[1].toIntVector()));
}

void flatten(Call& call) {
  const at::Tensor given = call.tensor(0);
  const std::int64_t axes = given.dim();
  const std::int64_t first = front_axis(call[1].toInt(), axes);
  const std::int64_t last = front_axis(call[2].toInt(), axes);
  Sizes to(given.sizes().begin(), given.sizes().begin() + first);
  to.push_back(product(
      Sizes(given.sizes().begin() + first, given.sizes().begin() + last + 1)));
  to.insert(to.end(), given.sizes().begin() + last + 1, given.sizes().end());
  call.give(reshaped(call, given, to));
}

void unsqueeze(Call& call) {
  const at::Tensor given = call.tensor(0);
  Sizes to = given.sizes().vec();
  to.insert(to.begin() + front_axis(call[1].toInt(), given.dim() + 1), 1);
  Split split = split_of(given);
  const auto axis =
      static_cast<int>(front_axis(call[1].toInt(), given.dim() + 1));
  for (int& cut : split.cut_axes)
    if (cut >= axis) ++cut;
  split.sizes = to;
  call.give(make_view(given, local_of(given).unsqueeze(axis), split));
}

void squeeze(Call& call) {
  const at::Tensor given = call.tensor(0);
  Split split = split_of(given);
  if (call.count() < 2) call.refuse("specify an axis");
  Sizes axes = call.integers(1, 1);
  for (std::int64_t& axis : axes) axis = front_axis(axis, given.dim());
  std::sort(axes.begin(), axes.end(), std::greater<>());
  at::Tensor local = local_of(given);
  for (const std::int64_t axis : axes) {
    if (given.size(axis) != 1) continue;
    if (split.is_cut(axis)) call.refuse("the axis is cut");
    split.sizes.erase(split.sizes.begin() + axis);
    for (int& cut : split.cut_axes)
      if (cut > axis) --cut;
    local = local.squeeze(axis);
  }
  call.give(make_view(given, local, split));
}

at::Tensor permuted(const at::Tensor& given, const Sizes& order) {
  const Split& split = split_of(given);
  Split result = split;
  for (std::size_t i = 0; i < order.size(); ++i) {
    result.sizes[i] = split.sizes[static_cast<std::size_t>(order[i])];
    const int cut = split.grid_axis(order[i]);
    if (cut >= 0)
      result.cut_axes[static_cast<std::size_t>(cut)] = static_cast<int>(i);
  }
  // Copies of the result may keep the order, and contiguous() on it is not
  // detected.
  if (!std::is_sorted(order.begin(), order.end()))
    result.may_be_reordered = true;
  return make_view(given, local_of(given).permute(order), result);
}

void permute(Call& call) {
  const at::Tensor given = call.tensor(0);
  Sizes order = call[1].toIntVector();
  for (std::int64_t& axis : order) axis = front_axis(axis, given.dim());
  call.give(permuted(given, order));
}

void transpose(Call& call) {
  const at::Tensor given = call.tensor(0);
  Sizes order(static_cast<std::size_t>(given.dim()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(
      order[static_cast<std::size_t>(front_axis(call[1].toInt(), given.dim()))],
      order[static_cast<std::size_t>(
          front_axis(call[2].toInt(), given.dim()))]);
  call.give(permuted(given, order));
}

// Along a cut axis, each rank keeps its part of the slice.
void slice(Call& call) {
  const at::Tensor given = call.tensor(0);
  const Split& split = split_of(given);
  const std::int64_t axis = front_axis(call[1].toInt(), given.dim());
  const std::int64_t size = given.size(axis);
  const auto bound = [&](const c10::IValue& value, std::int64_t otherwise) {
    if (value.isNone()) return otherwise;
    return std::clamp(front_axis(value.toInt(), size), std::int64_t{0}, size);
  };
  const std::int64_t begin = bound(call[2], 0);
  const std::int64_t end = std::max(begin, bound(call[3], size));
  const std::int64_t step = call[4].toInt();
  Split result = split;
  const int cut = split.grid_axis(axis);
  if (cut < 0) {
    const at::Tensor local = local_of(given).slice(axis, begin, end, step);
    result.sizes[static_cast<std::size_t>(axis)] = local.size(axis);
    return call.give(make_view(given, local, result));
  }
  if (step != 1) call.refuse("it has a step along a cut axis");
  std::vector<halo::Cuts> cuts;
  for (int i = 0; i < split.layout.axes(); ++i) {
    std::vector<std::int64_t> positions = split.layout.cuts(i).positions();
    if (i == cut)
      for (std::int64_t& at : positions)
        at = std::clamp(at, begin, end) - begin;
    cuts.emplace_back(std::move(positions));
  }
  result.layout = halo::Tiling(split.layout.grid(), std::move(cuts));
  result.sizes[static_cast<std::size_t>(axis)] = end - begin;
  const halo::Interval own = split.interval(axis);
  const halo::Interval wanted = intersect(own, {begin, end});
  call.give(make_view(
      given,
      local_of(given).narrow(axis,
                             wanted.is_empty() ? 0 : wanted.begin - own.begin,
                             wanted.size()),
      result));
}

void select(Call& call) {
  const at::Tensor given = call.tensor(0);
  Split split = split_of(given);
  const std::int64_t axis = front_axis(call[1].toInt(), given.dim());
  if (split.is_cut(axis)) call.refuse("the axis is cut");
  split.sizes.erase(split.sizes.begin() + axis);
  for (int& cut : split.cut_axes)
    if (cut > axis) --cut;
  call.give(
      make_view(given, local_of(given).select(axis, call[2].toInt()), split));
}

void cat(Call& call) {
  const at::Tensor first = first_split(call);
  Split split = split_of(first);
  const std::int64_t axis = front_axis(call[1].toInt(), first.dim());
  if (split.is_cut(axis)) call.refuse("it joins tensors along a cut axis");
  std::vector<at::Tensor> parts;
  for (const at::Tensor& one : call[0].toTensorVector()) {
    if (may_be_reordered(one)) split.may_be_reordered = true;
    parts.push_back(part_like(call, one, split));
  }
  const at::Tensor local = at::cat(parts, axis);
  call.give(make_split(local, split_like(split, local)));
}

// Cut axes grow only at the borders of the image.
void pad(Call& call) {
  const at::Tensor given = call.tensor(0);
  const Split& split = split_of(given);
  const Sizes padding = call[1].toIntVector();
  Split result = split;
  Sizes local = padding;
  std::vector<halo::Cuts> cuts;
  for (int i = 0; i < split.layout.axes(); ++i)
    cuts.push_back(split.layout.cuts(i));
  for (std::size_t i = 0; i < padding.size() / 2; ++i) {
    const std::int64_t axis = given.dim() - 1 - static_cast<std::int64_t>(i);
    const std::int64_t low = padding[2 * i], high = padding[2 * i + 1];
    result.sizes[static_cast<std::size_t>(axis)] += low + high;
    const int cut = split.grid_axis(axis);
    if (cut < 0) continue;
    if (low < 0 || high < 0) call.refuse("it crops a cut axis; use a slice");
    Sizes positions = split.layout.cuts(cut).positions();
    for (std::size_t k = 1; k < positions.size(); ++k) positions[k] += low;
    positions.back() += high;
    cuts[static_cast<std::size_t>(cut)] = halo::Cuts(positions);
    const int place = split.layout.grid().coordinates(
        split.tiles->rank())[static_cast<std::size_t>(cut)];
    if (place > 0) local[2 * i] = 0;
    if (place + 1 < split.layout.grid().size(cut)) local[2 * i + 1] = 0;
  }
  result.layout = halo::Tiling(split.layout.grid(), std::move(cuts));
  call.give(
      make_split(padded(local_of(given), local, call[2].toScalar()), result));
}

}  // namespace

void add_shape_operations(Operations& table) {
  table.emplace("aten::view", Rule{view, Flat::kTaken});
  table.emplace("aten::reshape", Rule{view, Flat::kTaken});
  table.emplace("aten::_unsafe_view", Rule{view, Flat::kTaken});
  table.emplace("aten::_reshape_alias", Rule{view, Flat::kTaken});
  table.emplace("aten::flatten", Rule{flatten, Flat::kTaken});
  table.emplace("aten::unsqueeze", unsqueeze);
  table.emplace("aten::squeeze", squeeze);
  table.emplace("aten::permute", permute);
  table.emplace("aten::transpose", transpose);
  table.emplace("aten::slice", slice);
  table.emplace("aten::select", select);
  table.emplace("aten::cat", cat);
  table.emplace("aten::constant_pad_nd", pad);
}

}  // namespace sheaf::spatial
