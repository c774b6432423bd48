// Filters that are not shared (sheaf/nn/locally_connected): each rank uses the
// filters of its own outputs. If a rank owns its filters, their gradients are
// complete.

#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/spatial/ops/windows.hpp"
#include "sheaf/spatial/split/dispatch.hpp"

namespace sheaf::spatial {
namespace {

using Sizes = std::vector<std::int64_t>;

std::vector<halo::Window> two_windows(Call& call) {
  return windows_of(call.integers(2, 2), call.integers(3, 2),
                    call.integers(4, 2), {}, false);
}

// The filters for the given rows and columns of outputs.
at::Tensor filters_at(const at::Tensor& weight, const halo::Interval& rows,
                      const halo::Interval& columns) {
  return weight.narrow(2, rows.begin, rows.size())
      .narrow(3, columns.begin, columns.size());
}

void note_places(Ownership& owned, const Split& output) {
  if (!owned.is_known) owned = {true, output.cut_axes, output.layout};
  SHEAF_CHECK(
      owned.layout == output.layout && owned.cut_axes == output.cut_axes,
      "filters that ranks own were applied to images "
      "cut as ",
      output.text(),
      ", but to images with other cuts before; cut them in the same way, or "
      "set SpatialOptions::owns_filters to false");
}

// Gradients are those of the sum of the ranks' losses, which are equal.
// Gradients of owned filters are not averaged, so they are divided by the
// number of ranks here (see halo_autograd.hpp).
at::Tensor own_filters(const at::Tensor& weight, const Split& output) {
  const at::Tensor filters =
      filters_at(weight, output.interval(2), output.interval(3));
  if (output.tiles->ownership(weight) && filters.requires_grad())
    filters.register_hook(
        [ranks = output.tiles->group().size()](const at::Tensor& gradient) {
          return gradient / ranks;
        });
  return filters;
}

// Axes that are not cut, or have one part, are padded here too: the operation
// is called without padding.
void connect(Call& call) {
  const at::Tensor given = image_of(call, 2);
  const at::Tensor weight = call.tensor(1);
  const Split split = split_of(given);
  WindowPlan plan = plan_windows(split, two_windows(call));
  plan.output.sizes[1] = weight.size(0);
  const at::Tensor input =
      window_input(local_of(given), split, plan, 0, /*pads_others=*/true);
  if (Ownership* owned = split.tiles->ownership(weight))
    note_places(*owned, plan.output);
  const Sizes sizes = plan.output.local_sizes();
  if (sizes[2] * sizes[3] == 0)
    return call.give(
        make_split(nothing_from({input, weight}, sizes), plan.output));
  call[0] = input;
  call[1] = own_filters(weight, plan.output);
  call[4] = Sizes{0, 0};
  call.compute();
  call.result(0) = make_split(call.result(0).toTensor(), plan.output);
}

void connect_transposed(Call& call) {
  const at::Tensor given = image_of(call, 2);
  const at::Tensor weight = call.tensor(1);
  const Split split = split_of(given);
  if (split.tiles->ownership(weight))
    call.refuse(
        "each rank trains only the filters that it owns, and this operation "
        "needs those of its neighbors; set SpatialOptions::owns_filters to "
        "false");
  const auto windows = two_windows(call);
  const Sizes image = call.integers(5, 2);
  Sizes more, reach;
  for (std::size_t i = 0; i < 2; ++i)
    more.push_back(image[i] -
                   halo::transposed_size(windows[i], split.sizes[2 + i], 0));
  TransposedPlan plan = plan_transposed(split, windows, more);
  plan.output.sizes[1] =
      weight.size(1) / (windows[0].kernel * windows[1].kernel);
  const at::Tensor input = with_halo(local_of(given), split, plan.needs);
  const Sizes sizes = plan.output.local_sizes();
  if (input.numel() == 0)
    return call.give(make_split(
        nothing_from({input, weight}, {0}).sum().expand(sizes), plan.output));
  for (std::size_t i = 0; i < 2; ++i)
    reach.push_back(
        halo::transposed_produced(windows[i], plan.inputs[i]).size());
  call[0] = input;
  call[1] = filters_at(weight, plan.inputs[0], plan.inputs[1]);
  call[4] = Sizes{0, 0};
  call[5] = reach;
  call.compute();
  call.result(0) = make_split(
      own_outputs(call.result(0).toTensor(), plan, windows), plan.output);
}

}  // namespace

void add_local_operations(Operations& table) {
  table.emplace("sheaf::locally_connected2d", connect);
  table.emplace("sheaf::locally_connected2d_transposed", connect_transposed);
}

}  // namespace sheaf::spatial
