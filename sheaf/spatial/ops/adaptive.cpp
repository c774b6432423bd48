// The windows of adaptive pooling.
#include "sheaf/spatial/ops/windows.hpp"

namespace sheaf::spatial {
namespace {

using Sizes = std::vector<std::int64_t>;

halo::Cuts adaptive_cuts(const AdaptiveAxis& axis, const halo::Cuts& inputs) {
  Sizes positions{0};
  for (int part = 1; part < inputs.parts(); ++part) {
    std::int64_t o = positions.back();
    while (o < axis.outputs && axis.centre(o) < inputs[part].begin) ++o;
    positions.push_back(o);
  }
  positions.push_back(axis.outputs);
  return halo::Cuts(positions);
}

// The inputs that each rank needs for its outputs.
Needs adaptive_needs(const AdaptivePlan& plan, std::size_t first) {
  Needs needs;
  const halo::Tiling& layout = plan.output.layout;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    auto& of_rank = needs.emplace_back();
    const halo::Box box = layout.box_of(rank);
    for (int i = 0; i < layout.axes(); ++i) {
      const int cut = plan.output.cut_axes[static_cast<std::size_t>(i)];
      halo::Interval needed{0, 1};
      if (cut >= 0)
        needed = plan.axes[static_cast<std::size_t>(cut) - first].needed(
            box.is_empty() ? halo::Interval{0, 0} : box[i]);
      of_rank.push_back({needed, 0, 0});
    }
  }
  return needs;
}

}  // namespace

halo::Interval AdaptiveAxis::window(std::int64_t o) const {
  return {o * inputs / outputs, ((o + 1) * inputs + outputs - 1) / outputs};
}

std::int64_t AdaptiveAxis::centre(std::int64_t o) const {
  return (window(o).begin + window(o).end - 1) / 2;
}

halo::Interval AdaptiveAxis::needed(const halo::Interval& some) const {
  if (some.is_empty()) return {0, 0};
  return {window(some.begin).begin, window(some.end - 1).end};
}

AdaptivePlan plan_adaptive(const Split& input,
                           const std::vector<AdaptiveAxis>& axes) {
  AdaptivePlan plan{input, {}, axes, {}, {}};
  const std::size_t first = input.sizes.size() - axes.size();
  std::vector<halo::Cuts> cuts;
  for (std::size_t i = 0; i < input.cut_axes.size(); ++i) {
    const halo::Cuts& before = input.layout.cuts(static_cast<int>(i));
    const int cut = input.cut_axes[i];
    cuts.push_back(
        cut < 0 ? before
                : adaptive_cuts(axes[static_cast<std::size_t>(cut) - first],
                                before));
  }
  plan.output.layout = halo::Tiling(input.layout.grid(), cuts);
  for (std::size_t i = 0; i < axes.size(); ++i)
    plan.output.sizes[first + i] = axes[i].outputs;
  plan.needs = adaptive_needs(plan, first);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::int64_t>(first + i);
    plan.mine.push_back(plan.output.interval(axis));
    plan.places.push_back(input.is_cut(axis)
                              ? axes[i].needed(plan.mine.back())
                              : halo::Interval{0, axes[i].inputs});
  }
  return plan;
}

}  // namespace sheaf::spatial
