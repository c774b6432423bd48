#include "sheaf/spatial/ops/windows.hpp"

#include <torch/torch.h>

#include <algorithm>

#include "sheaf/base/error.hpp"

namespace sheaf::spatial {

WindowPlan plan_windows(const Split& input,
                        const std::vector<halo::Window>& windows) {
  WindowPlan plan{input, {}, {}};
  const std::size_t first = input.sizes.size() - windows.size();
  std::vector<halo::Cuts> cuts;
  std::vector<const halo::Window*> by_cut;
  for (std::size_t i = 0; i < input.cut_axes.size(); ++i) {
    const halo::Cuts& before = input.layout.cuts(static_cast<int>(i));
    const int axis = input.cut_axes[i];
    if (axis < static_cast<int>(first)) {
      SHEAF_ASSERT(axis < 0, "a window over images with cuts along other axes");
      cuts.push_back(before);
      by_cut.push_back(nullptr);
      continue;
    }
    by_cut.push_back(&windows[static_cast<std::size_t>(axis) - first]);
    cuts.push_back(halo::following_cuts(*by_cut.back(), before));
  }
  plan.output.layout = halo::Tiling(input.layout.grid(), cuts);
  for (std::size_t i = windows.size(); i-- > 0;) {
    const std::size_t axis = first + i;
    const std::int64_t size = input.sizes[axis];
    const std::int64_t outputs = halo::output_size(windows[i], size);
    plan.output.sizes[axis] = outputs;
    halo::Padded padded{{0, size}, 0, 0};
    if (!input.is_cut(static_cast<std::int64_t>(axis)))
      padded = halo::clamp(halo::needed(windows[i], {0, outputs}), size);
    plan.other_padding.push_back(padded.low);
    // Inputs that no window uses are cropped.
    plan.other_padding.push_back(padded.high - (size - padded.inside.end));
  }
  for (int rank = 0; rank < input.layout.ranks(); ++rank) {
    auto& of_rank = plan.needs.emplace_back();
    for (std::size_t i = 0; i < cuts.size(); ++i) {
      const halo::Interval outputs =
          plan.output.layout.box_of(rank)[static_cast<int>(i)];
      if (!by_cut[i]) {
        of_rank.push_back({{0, 1}, 0, 0});
        continue;
      }
      const halo::Padded padded =
          halo::clamp(halo::needed(*by_cut[i], outputs),
                      input.layout.cuts(static_cast<int>(i)).size());
      of_rank.push_back({padded.inside, padded.low, padded.high});
    }
    // A rank without outputs needs no inputs along any axis.
    const halo::Box box = plan.output.layout.box_of(rank);
    if (box.is_empty())
      for (Need& need : of_rank) need = {{0, 0}, 0, 0};
  }
  return plan;
}

at::Tensor window_input(const at::Tensor& local, const Split& input,
                        const WindowPlan& plan, double fill, bool pads_others) {
  const at::Tensor grown = with_halo(local, input, plan.needs, fill);
  const bool has_padding =
      std::any_of(plan.other_padding.begin(), plan.other_padding.end(),
                  [](std::int64_t size) { return size != 0; });
  if (!pads_others || !has_padding || grown.numel() == 0) return grown;
  return padded(grown, plan.other_padding, fill);
}

TransposedPlan plan_transposed(const Split& input,
                               const std::vector<halo::Window>& windows,
                               const std::vector<std::int64_t>& more) {
  TransposedPlan plan{input, {}, {}};
  const std::size_t first = input.sizes.size() - windows.size();
  for (std::size_t i = 0; i < windows.size(); ++i)
    plan.output.sizes[first + i] =
        halo::transposed_size(windows[i], input.sizes[first + i], more[i]);
  std::vector<halo::Cuts> cuts;
  for (std::size_t i = 0; i < input.cut_axes.size(); ++i) {
    const auto at = static_cast<std::size_t>(input.cut_axes[i]) - first;
    cuts.push_back(halo::transposed_following_cuts(
        windows[at], input.layout.cuts(static_cast<int>(i)), more[at]));
  }
  plan.output.layout = halo::Tiling(input.layout.grid(), cuts);
  for (int rank = 0; rank < input.layout.ranks(); ++rank) {
    auto& of_rank = plan.needs.emplace_back();
    const halo::Box box = plan.output.layout.box_of(rank);
    bool is_empty = box.is_empty();
    for (std::size_t i = 0; i < input.cut_axes.size(); ++i) {
      const auto at = static_cast<std::size_t>(input.cut_axes[i]) - first;
      of_rank.push_back({halo::transposed_needed(
                             windows[at], box[static_cast<int>(i)],
                             input.layout.cuts(static_cast<int>(i)).size()),
                         0, 0});
      is_empty = is_empty || of_rank.back().inside.is_empty();
    }
    if (is_empty)
      for (Need& need : of_rank) need = {{0, 0}, 0, 0};
  }
  const auto& mine = plan.needs[static_cast<std::size_t>(input.tiles->rank())];
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const int cut = input.grid_axis(static_cast<std::int64_t>(first + i));
    plan.inputs.push_back(cut < 0 ? halo::Interval{0, input.sizes[first + i]}
                                  : mine[static_cast<std::size_t>(cut)].inside);
  }
  return plan;
}

at::Tensor own_outputs(const at::Tensor& made, const TransposedPlan& plan,
                       const std::vector<halo::Window>& windows) {
  const std::size_t first = plan.output.sizes.size() - windows.size();
  std::vector<std::int64_t> border;
  for (std::size_t i = windows.size(); i-- > 0;) {
    const halo::Interval reached =
        halo::transposed_produced(windows[i], plan.inputs[i]);
    const halo::Interval wanted =
        plan.output.interval(static_cast<std::int64_t>(first + i));
    border.push_back(reached.begin - wanted.begin);
    border.push_back(wanted.end - reached.end);
  }
  return padded(made, border, 0);  // negative: crops
}

}  // namespace sheaf::spatial
