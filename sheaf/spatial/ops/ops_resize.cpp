// Upsampling. It is separable: along each axis, an output is one input or a
// weighted mean of two inputs, whose positions are those in the whole image.

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/spatial/ops/resampling.hpp"
#include "sheaf/spatial/ops/windows.hpp"
#include "sheaf/spatial/split/dispatch.hpp"

namespace sheaf::spatial {
namespace {

// An output belongs to the rank of its first input.
halo::Cuts cuts_after(const halo::Cuts& before, const Resampling& rule) {
  std::vector<std::int64_t> positions{0};
  std::int64_t o = 0;
  for (int part = 0; part < before.parts(); ++part) {
    while (o < rule.outputs() &&
           rule.low[static_cast<std::size_t>(o)] < before[part].end)
      ++o;
    positions.push_back(part + 1 == before.parts() ? rule.outputs() : o);
  }
  return halo::Cuts(positions);
}

// Resizes the last axes.
void resize(Call& call, const std::vector<Resampling>& rules) {
  const at::Tensor given = call.tensor(0);
  const Split& split = split_of(given);
  const auto rank = static_cast<std::size_t>(split.tiles->rank());
  const std::size_t first = split.sizes.size() - rules.size();
  Split output = split;
  for (std::size_t i = 0; i < rules.size(); ++i)
    output.sizes[first + i] = rules[i].outputs();
  std::vector<halo::Cuts> cuts;
  for (std::size_t i = 0; i < split.cut_axes.size(); ++i) {
    if (split.cut_axes[i] < static_cast<int>(first))
      call.refuse("samples or channels are cut");
    const auto at = static_cast<std::size_t>(split.cut_axes[i]) - first;
    cuts.push_back(
        cuts_after(split.layout.cuts(static_cast<int>(i)), rules[at]));
  }
  output.layout = halo::Tiling(split.layout.grid(), cuts);
  Needs needs;
  for (int r = 0; r < split.layout.ranks(); ++r) {
    auto& of_rank = needs.emplace_back();
    const halo::Box box = output.layout.box_of(r);
    for (std::size_t i = 0; i < split.cut_axes.size(); ++i) {
      const auto at = static_cast<std::size_t>(split.cut_axes[i]) - first;
      of_rank.push_back({box.is_empty()
                             ? halo::Interval{}
                             : rules[at].needed(box[static_cast<int>(i)]),
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
    result = resample(result, axis, rules[i], output.interval(axis), begin);
  }
  call.give(make_split(result, output));
}

// The target of upsample_X(self, output_size, [align_corners,] scales...) and
// of the overloads with a list of factors instead of the size.
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
    const bool is_list =
        call.count() > first_scale && call[first_scale].isDoubleList();
    const std::size_t place = is_list ? first_scale : first_scale + i;
    if (call.count() <= place) break;
    const c10::IValue& value = call[place];
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

std::vector<ResampledAxis> resampled_axes(Call& call, std::size_t axes,
                                          std::size_t first_scale) {
  const at::Tensor given = call.tensor(0);
  if (!is_split(given)) call.refuse("its input is not split");
  const Target target = target_of(call, axes, first_scale);
  std::vector<ResampledAxis> result;
  for (std::size_t i = 0; i < axes; ++i) {
    result.push_back(
        {given.size(given.dim() - static_cast<std::int64_t>(axes - i)),
         target.sizes[i], target.scales[i]});
    if (result.back().inputs < 1 || result.back().outputs < 1)
      call.refuse(concat("it resizes an axis from ", result.back().inputs,
                         " to ", result.back().outputs));
  }
  return result;
}

// Whether the tensor would certainly have the memory order of its axes in a
// single process. All ranks of the grid must call it.
bool is_in_usual_order(const at::Tensor& given) {
  std::vector<std::int64_t> doubts{
      may_be_reordered(given) || may_have_gaps(given) ? 1 : 0};
  comm::all_reduce(
      split_of(given).tiles->group(), doubts,
      {.op = comm::ReduceOp::kMax, .name = "order of an image in memory"})
      .wait();
  return doubts[0] == 0;
}

template <std::size_t kAxes, bool kExact>
void nearest(Call& call) {
  const at::Tensor given = call.tensor(0);
  NearestKernel kernel{.axes = resampled_axes(call, kAxes, 2),
                       .is_exact = kExact,
                       .channels = given.size(1),
                       .type = given.scalar_type()};
  const auto rules_of = [&](MemoryOrder order) {
    kernel.order = order;
    std::vector<Resampling> rules;
    for (std::size_t i = 0; i < kAxes; ++i)
      rules.push_back(nearest_resampling(kernel, i));
    return rules;
  };
  const auto rules = rules_of(MemoryOrder::kUsual);
  if (rules == rules_of(MemoryOrder::kChannelsLast) &&
      rules == rules_of(MemoryOrder::kOther))
    return resize(call, rules);
  if (!is_in_usual_order(given))
    call.refuse(
        "with these sizes the nearest inputs depend on the memory order that "
        "the image would have in one process, which is not known here; call "
        "clone(at::MemoryFormat::Contiguous) before it");
  resize(call, rules);
}

template <std::size_t kAxes>
void linear(Call& call) {
  std::vector<Resampling> rules;
  for (const ResampledAxis& axis : resampled_axes(call, kAxes, 3))
    rules.push_back(linear_resampling(axis, call[2].toBool()));
  resize(call, rules);
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
