#include "sheaf/spatial/ops/conv_regions.hpp"

#include <torch/torch.h>

#include <algorithm>

namespace sheaf::spatial {
namespace {

// Requires equal padding on both sides.
bool fits_by_itself(const halo::Window& window, std::int64_t low,
                    const halo::Interval& own, const halo::Interval& outputs) {
  const std::int64_t room = own.size() + 2 * low - window.extent();
  return low >= 0 && room >= 0 && room / window.stride + 1 == outputs.size();
}

Band band_of(const ConvolutionTask& task, const halo::Box& outputs,
             const at::Tensor& tile) {
  const halo::Box reach = reach_of(task, outputs);
  Band band{outputs, intersect(reach, task.input.layout.whole()), {}, {}};
  band.inputs =
      at::zeros(sizes_over(reach, task.axes(), tile.size(0), tile.size(1)),
                tile.options());
  if (!band.inside.is_empty())
    band.part = part_at(band.inputs, band.inside, reach, task.axes());
  return band;
}

}  // namespace

halo::Box ConvolutionTask::own_inputs() const {
  return input.layout.box_of(input.tiles->rank());
}

halo::Box ConvolutionTask::own_outputs() const {
  return plan.output.layout.box_of(input.tiles->rank());
}

halo::Box reach_of(const ConvolutionTask& task, const halo::Box& outputs) {
  halo::Box reach;
  for (int axis = 0; axis < task.axes(); ++axis)
    reach[axis] = halo::needed(task.windows[static_cast<std::size_t>(axis)],
                               outputs[axis]);
  return reach;
}

halo::Box interior_of(const ConvolutionTask& task) {
  const halo::Box own = task.own_inputs();
  const halo::Box outputs = task.own_outputs();
  halo::Box inner = outputs;
  if (intersect(own, reach_of(task, outputs)).is_empty())
    inner[0].end = inner[0].begin;
  else
    for (int axis = 0; axis < task.axes(); ++axis)
      inner[axis] = halo::interior(task.windows[static_cast<std::size_t>(axis)],
                                   outputs[axis], own[axis],
                                   task.input.layout.cuts(axis).size());
  return inner;
}

Needs needs_of_gradient(const ConvolutionTask& task) {
  Needs needs;
  const halo::Tiling& outputs = task.plan.output.layout;
  for (int rank = 0; rank < outputs.ranks(); ++rank) {
    auto& of_rank = needs.emplace_back();
    const halo::Box own = task.input.layout.box_of(rank);
    for (int axis = 0; axis < task.axes(); ++axis)
      of_rank.push_back(
          {own.is_empty()
               ? halo::Interval{}
               : halo::touching(task.windows[static_cast<std::size_t>(axis)],
                                own[axis], outputs.cuts(axis).size()),
           0, 0});
  }
  return needs;
}

at::Tensor part_at(at::Tensor tensor, const halo::Box& box,
                   const halo::Box& origin, int axes) {
  for (int axis = 0; axis < axes; ++axis)
    tensor = tensor.narrow(axis + 2, box[axis].begin - origin[axis].begin,
                           box[axis].size());
  return tensor;
}

std::vector<std::int64_t> sizes_over(const halo::Box& box, int axes,
                                     std::int64_t samples,
                                     std::int64_t channels) {
  std::vector<std::int64_t> sizes{samples, channels};
  for (int axis = 0; axis < axes; ++axis) sizes.push_back(box[axis].size());
  return sizes;
}

HomeTile::HomeTile(const ConvolutionTask& task) {
  const halo::Box own = task.own_inputs();
  const halo::Box outputs = task.own_outputs();
  const halo::Box reach = reach_of(task, outputs);
  has_any_ = !outputs.is_empty() && !intersect(own, reach).is_empty();
  for (int axis = 0; axis < task.axes() && has_any_; ++axis) {
    const std::int64_t low = own[axis].begin - reach[axis].begin;
    const std::int64_t high = reach[axis].end - own[axis].end;
    const bool fits =
        fits_by_itself(task.windows[static_cast<std::size_t>(axis)], low,
                       own[axis], outputs[axis]);
    padding_.push_back(fits ? low : 0);
    border_.insert(border_.begin(), {fits ? 0 : low, fits ? 0 : high});
  }
}

bool HomeTile::has_border() const {
  return std::any_of(border_.begin(), border_.end(),
                     [](std::int64_t size) { return size != 0; });
}

at::Tensor HomeTile::input(const at::Tensor& tile) const {
  return has_border() ? padded(tile, border_, 0) : tile;
}

at::Tensor HomeTile::input_adjoint(const at::Tensor& gradient) const {
  if (!has_border()) return gradient;
  std::vector<std::int64_t> back = border_;
  for (std::int64_t& size : back) size = -size;
  return padded(gradient, back, 0);
}

std::vector<Band> bands_of(const ConvolutionTask& task,
                           const at::Tensor& tile) {
  std::vector<Band> bands;
  for (const halo::Box& box :
       halo::boxes_around(task.own_outputs(), interior_of(task)))
    bands.push_back(band_of(task, box, tile));
  return bands;
}

std::vector<halo::Patch> patches_of(const std::vector<Band>& bands) {
  std::vector<halo::Patch> patches;
  for (const Band& band : bands)
    if (band.part.defined())
      patches.push_back({band.inside, view_of(band.part)});
  return patches;
}

void forget_own(const Band& band, const ConvolutionTask& task) {
  const halo::Box own = intersect(band.inside, task.own_inputs());
  if (band.part.defined() && !own.is_empty())
    part_at(band.part, own, band.inside, task.axes()).zero_();
}

}  // namespace sheaf::spatial
