// Upsampling. It is separable: along each axis an output is a weighted mean of
// two inputs, or one of them, whose places follow from those in the whole.

#include <torch/torch.h>

#include <cmath>
#include <functional>

#include "sheaf/base/error.hpp"
#include "sheaf/spatial/dispatch.hpp"
#include "sheaf/spatial/windows.hpp"

namespace sheaf::spatial {
namespace {

struct Source {
  std::int64_t low = 0;
  std::int64_t high = 0;
  double part_of_high = 0;
};
using Rule = std::function<Source(std::int64_t output)>;

Rule nearest_rule(std::int64_t inputs, std::int64_t outputs,
                  std::optional<double> scale, bool is_exact) {
  const double ratio =
      scale ? 1 / *scale
            : static_cast<double>(inputs) / static_cast<double>(outputs);
  const double shift = is_exact ? 0.5 : 0;
  return [=](std::int64_t o) {
    const auto at = static_cast<std::int64_t>(
        std::floor((static_cast<double>(o) + shift) * ratio));
    const std::int64_t place = std::min(at, inputs - 1);
    return Source{place, place, 0};
  };
}

Rule linear_rule(std::int64_t inputs, std::int64_t outputs,
                 std::optional<double> scale, bool aligns_corners) {
  double ratio =
      scale ? 1 / *scale
            : static_cast<double>(inputs) / static_cast<double>(outputs);
  if (aligns_corners)
    ratio = outputs > 1 ? static_cast<double>(inputs - 1) /
                              static_cast<double>(outputs - 1)
                        : 0;
  return [=](std::int64_t o) {
    const double at =
        aligns_corners
            ? static_cast<double>(o) * ratio
            : std::max(0.0, (static_cast<double>(o) + 0.5) * ratio - 0.5);
    const auto low = std::min(static_cast<std::int64_t>(at), inputs - 1);
    return Source{low, std::min(low + 1, inputs - 1),
                  at - static_cast<double>(low)};
  };
}

// An output goes with the input that it is made of.
halo::Cuts cuts_after(const halo::Cuts& before, const Rule& rule,
                      std::int64_t outputs) {
  std::vector<std::int64_t> positions{0};
  std::int64_t o = 0;
  for (int part = 0; part < before.parts(); ++part) {
    while (o < outputs && rule(o).low < before[part].end) ++o;
    positions.push_back(part + 1 == before.parts() ? outputs : o);
  }
  return halo::Cuts(positions);
}

halo::Interval needed(const Rule& rule, const halo::Interval& outputs) {
  if (outputs.is_empty()) return {};
  return {rule(outputs.begin).low, rule(outputs.end - 1).high + 1};
}

at::Tensor along(const at::Tensor& input, std::int64_t axis, const Rule& rule,
                 const halo::Interval& outputs, std::int64_t begin) {
  std::vector<std::int64_t> low, high;
  std::vector<double> part;
  bool is_mixed = false;
  for (std::int64_t o = outputs.begin; o < outputs.end; ++o) {
    const Source source = rule(o);
    low.push_back(source.low - begin);
    high.push_back(source.high - begin);
    part.push_back(source.part_of_high);
    is_mixed = is_mixed || source.part_of_high != 0;
  }
  const auto places = [&](const std::vector<std::int64_t>& list) {
    return at::tensor(list, at::kLong).to(input.device());
  };
  const at::Tensor lower = input.index_select(axis, places(low));
  if (!is_mixed) return lower;
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[static_cast<std::size_t>(axis)] = -1;
  const at::Tensor weight =
      at::tensor(part, at::kDouble).to(input.options()).view(shape);
  return lower * (1 - weight) + input.index_select(axis, places(high)) * weight;
}

void resize(Call& call, const std::vector<std::int64_t>& sizes,
            const std::vector<Rule>& rules) {
  const at::Tensor given = call.tensor(0);
  const Split& split = split_of(given);
  const auto rank = static_cast<std::size_t>(split.tiles->rank());
  const std::size_t first = split.sizes.size() - rules.size();
  Split output = split;
  for (std::size_t i = 0; i < rules.size(); ++i)
    output.sizes[first + i] = sizes[i];
  std::vector<halo::Cuts> cuts;
  for (std::size_t i = 0; i < split.cut_axes.size(); ++i) {
    if (split.cut_axes[i] < static_cast<int>(first))
      call.refuse("samples or channels are cut");
    const auto at = static_cast<std::size_t>(split.cut_axes[i]) - first;
    cuts.push_back(cuts_after(split.layout.cuts(static_cast<int>(i)), rules[at],
                              sizes[at]));
  }
  output.layout = halo::Layout(split.layout.grid(), cuts);
  Needs needs;
  for (int r = 0; r < split.layout.ranks(); ++r) {
    auto& of_rank = needs.emplace_back();
    const halo::Box box = output.layout.box_of(r);
    for (std::size_t i = 0; i < split.cut_axes.size(); ++i) {
      const auto at = static_cast<std::size_t>(split.cut_axes[i]) - first;
      of_rank.push_back({box.is_empty()
                             ? halo::Interval{}
                             : needed(rules[at], box[static_cast<int>(i)]),
                         0, 0});
    }
  }
  at::Tensor result = with_halo(local_of(given), split, needs);
  const std::vector<std::int64_t> wanted = output.local_sizes();
  if (result.numel() == 0)
    return call.give(make_split(nothing_from({result}, wanted), output));
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const auto axis = static_cast<std::int64_t>(first + i);
    const int cut = split.grid_axis(axis);
    const std::int64_t begin =
        cut < 0 ? 0 : needs[rank][static_cast<std::size_t>(cut)].inside.begin;
    result = along(result, axis, rules[i], output.interval(axis), begin);
  }
  call.give(make_split(result, output));
}

// upsample_X(self, output_size, [align_corners,] scales...), and overloads
// with a list of factors in place of the size.
struct Target {
  std::vector<std::int64_t> sizes;
  std::vector<std::optional<double>> scales;
};
Target target_of(Call& call, std::size_t axes, std::size_t first_scale) {
  const at::Tensor given = call.tensor(0);
  Target target;
  target.scales.resize(axes);
  if (call[1].isIntList()) target.sizes = call[1].toIntVector();
  for (std::size_t i = 0; i < axes; ++i) {
    if (call.count() <= first_scale) break;
    const c10::IValue& value =
        call[call[first_scale].isDoubleList() ? first_scale : first_scale + i];
    if (value.isDouble()) target.scales[i] = value.toDouble();
    if (value.isDoubleList()) target.scales[i] = value.toDoubleVector()[i];
  }
  for (std::size_t i = target.sizes.size(); i < axes; ++i)
    target.sizes.push_back(static_cast<std::int64_t>(
        std::floor(static_cast<double>(given.size(
                       given.dim() - static_cast<std::int64_t>(axes - i))) *
                   *target.scales[i])));
  return target;
}

at::Tensor checked(Call& call) {
  const at::Tensor given = call.tensor(0);
  if (!is_split(given) || flat_from(given) >= 0) call.refuse("it is flattened");
  return given;
}

template <std::size_t kAxes, bool kExact>
void nearest(Call& call) {
  const at::Tensor given = checked(call);
  const Target target = target_of(call, kAxes, 2);
  std::vector<Rule> rules;
  for (std::size_t i = 0; i < kAxes; ++i)
    rules.push_back(nearest_rule(
        given.size(given.dim() - static_cast<std::int64_t>(kAxes - i)),
        target.sizes[i], target.scales[i], kExact));
  resize(call, target.sizes, rules);
}

template <std::size_t kAxes>
void linear(Call& call) {
  const at::Tensor given = checked(call);
  const Target target = target_of(call, kAxes, 3);
  std::vector<Rule> rules;
  for (std::size_t i = 0; i < kAxes; ++i)
    rules.push_back(linear_rule(
        given.size(given.dim() - static_cast<std::int64_t>(kAxes - i)),
        target.sizes[i], target.scales[i], call[2].toBool()));
  resize(call, target.sizes, rules);
}

}  // namespace

void add_resize_operations(Operations& table) {
  table.emplace("aten::upsample_nearest1d", nearest<1, false>);
  table.emplace("aten::upsample_nearest2d", nearest<2, false>);
  table.emplace("aten::upsample_nearest3d", nearest<3, false>);
  table.emplace("aten::_upsample_nearest_exact1d", nearest<1, true>);
  table.emplace("aten::_upsample_nearest_exact2d", nearest<2, true>);
  table.emplace("aten::_upsample_nearest_exact3d", nearest<3, true>);
  table.emplace("aten::upsample_linear1d", linear<1>);
  table.emplace("aten::upsample_bilinear2d", linear<2>);
  table.emplace("aten::upsample_trilinear3d", linear<3>);
}

}  // namespace sheaf::spatial
