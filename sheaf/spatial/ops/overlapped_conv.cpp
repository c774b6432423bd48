#include "sheaf/spatial/ops/overlapped_conv.hpp"

#include <torch/torch.h>

#include <algorithm>

#include "sheaf/spatial/split/notes.hpp"
#include "sheaf/tensor/groups/keep.hpp"
#include "sheaf/tensor/groups/memory.hpp"

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

namespace {

using Sizes = std::vector<std::int64_t>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Numbers {
  Sizes stride, dilation, none;
};
Numbers numbers_of(const ConvolutionTask& task) {
  Numbers numbers;
  for (const halo::Window& window : task.windows) {
    numbers.stride.push_back(window.stride);
    numbers.dilation.push_back(window.dilation);
    numbers.none.push_back(0);
  }
  return numbers;
}

at::Tensor convolve(const at::Tensor& input, const at::Tensor& weight,
                    const at::Tensor& bias, const ConvolutionTask& task,
                    const Sizes& padding) {
  const Numbers numbers = numbers_of(task);
  return at::convolution(input, weight, bias, numbers.stride, padding,
                         numbers.dilation, false, numbers.none, task.groups);
}

struct Gradients {
  at::Tensor input, weight, bias;
};
Gradients gradients_of(const at::Tensor& dy, const at::Tensor& input,
                       const at::Tensor& weight, const ConvolutionTask& task,
                       const Sizes& padding, std::array<bool, 3> wanted) {
  const Numbers numbers = numbers_of(task);
  Gradients made;
  std::tie(made.input, made.weight, made.bias) = at::convolution_backward(
      dy, input, weight, Sizes{weight.size(0)}, numbers.stride, padding,
      numbers.dilation, false, numbers.none, task.groups, wanted);
  return made;
}

// Adds the contribution of other ranks' outputs to the gradient of this rank's
// inputs.
void add_from_others(const at::Tensor& dx, const at::Tensor& dy,
                     const halo::Box& outputs, const at::Tensor& weight,
                     const ConvolutionTask& task) {
  const halo::Box own = task.own_inputs();
  const halo::Box reach = reach_of(task, outputs);
  const halo::Box both = intersect(own, reach);
  if (both.is_empty()) return;
  // Only the sizes of the input are used.
  const at::Tensor like = at::empty(
      sizes_over(reach, task.axes(), dx.size(0), dx.size(1)), dy.options());
  const at::Tensor made =
      gradients_of(dy, like, weight, task, numbers_of(task).none,
                   {true, false, false})
          .input;
  part_at(dx, both, own, task.axes())
      .add_(part_at(made, both, reach, task.axes()));
}

// An exchange of output gradients in progress, and their destination.
class GradientHalo {
 public:
  GradientHalo(const ConvolutionTask& task, const at::Tensor& dy)
      : task_(task),
        needs_(needs_of_gradient(task)),
        exchange_(task.input.tiles->exchange(
            task.plan.output.layout, boxes_of(needs_),
            tensor::dtype_of(dy.scalar_type()))),
        dy_(dy),
        handle_(task.input.tiles->lent().start(exchange_, dy)) {}

  void finish(const at::Tensor& dx, const at::Tensor& weight,
              const std::string& name) {
    const halo::HaloPlan& plan = exchange_.plan();
    std::vector<at::Tensor> bands;
    std::vector<halo::Patch> patches;
    for (const halo::Box& box : boxes_around(plan.wanted, plan.local)) {
      bands.push_back(
          at::empty(sizes_over(box, task_.axes(), dy_.size(0), dy_.size(1)),
                    dy_.options()));
      patches.push_back({box, view_of(bands.back())});
    }
    exchange_.finish(handle_, patches, halo::Part::kHalo);
    task_.input.tiles->lent().keep(exchange_, handle_, dy_);
    note_halo(task_.plan.output, needs_, plan, dy_, name,
              handle_.bytes_in_place(), true);
    for (std::size_t i = 0; i < bands.size(); ++i)
      add_from_others(dx, bands[i], patches[i].box, weight, task_);
  }

 private:
  const ConvolutionTask& task_;
  const Needs needs_;
  halo::HaloExchange& exchange_;
  const at::Tensor dy_;
  halo::HaloExchange::Handle handle_;
};

struct OverlappedConvolution
    : torch::autograd::Function<OverlappedConvolution> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& local,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const ConvolutionTask* task) {
    Tiles& tiles = *task->input.tiles;
    halo::HaloExchange& exchange =
        tiles.exchange(task->input.layout, boxes_of(task->plan.needs),
                       tensor::dtype_of(local.scalar_type()));
    const at::Tensor tile = local.contiguous();
    const auto handle = tiles.lent().start(exchange, tile);
    const HomeTile home(*task);
    const at::Tensor base = home.has_any() ? home.input(tile) : tile;
    const halo::Box outputs = task->own_outputs();
    const at::Tensor result =
        interior_of(*task).is_empty()
            ? at::empty(sizes_over(outputs, task->axes(), tile.size(0),
                                   weight.size(0)),
                        tile.options())
            : convolve(base, weight, bias, *task, home.padding());
    const std::vector<Band> bands = bands_of(*task, tile);
    exchange.finish(handle, patches_of(bands));
    tiles.lent().keep(exchange, handle, tile);
    const std::string name = CallName::text(tiles);
    note_halo(task->input, task->plan.needs, exchange.plan(), tile, name,
              handle.bytes_in_place(), true);
    variable_list saved{base, weight};
    for (const Band& band : bands) {
      part_at(result, band.outputs, outputs, task->axes())
          .copy_(convolve(band.inputs, weight, bias, *task,
                          numbers_of(*task).none));
      forget_own(band, *task);
      saved.push_back(band.inputs);
    }
    context->save_for_backward(saved);
    context->saved_data["has_input_gradient"] = local.requires_grad();
    tensor::keep(context, *task);
    context->saved_data["name"] = name;
    return result;
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const ConvolutionTask& task = tensor::kept<ConvolutionTask>(context);
    task.input.tiles->begin_backward();
    const auto saved = context->get_saved_variables();
    const at::Tensor& weight = saved[1];
    const at::Tensor dy = gradients[0].contiguous();
    const bool sends = context->saved_data["has_input_gradient"].toBool();
    std::optional<GradientHalo> halo;
    if (sends) halo.emplace(task, dy);
    Gradients made = at_home(dy, saved[0], weight, task, sends);
    add_bands(made.weight, dy, saved, task);
    if (halo)
      halo->finish(made.input, weight,
                   context->saved_data["name"].toStringRef() + ", backward");
    return {made.input, made.weight, made.bias, {}};
  }

 private:
  // Computes the local part while gradients are exchanged.
  static Gradients at_home(const at::Tensor& dy, const at::Tensor& base,
                           const at::Tensor& weight,
                           const ConvolutionTask& task, bool sends) {
    const HomeTile home(task);
    Gradients made;
    if (home.has_any()) {
      made = gradients_of(dy, base, weight, task, home.padding(),
                          {sends, true, true});
      if (sends) made.input = home.input_adjoint(made.input);
      return made;
    }
    if (sends)
      made.input = at::zeros(
          sizes_over(task.own_inputs(), task.axes(), dy.size(0), base.size(1)),
          dy.options());
    made.weight = at::zeros_like(weight);
    Sizes others{0};
    for (std::int64_t axis = 2; axis < dy.dim(); ++axis) others.push_back(axis);
    made.bias = dy.sum(others);
    return made;
  }

  // Adds the contribution of the halos to the weights' gradient.
  static void add_bands(const at::Tensor& dw, const at::Tensor& dy,
                        const variable_list& saved,
                        const ConvolutionTask& task) {
    const halo::Box outputs = task.own_outputs();
    std::size_t next = 2;
    for (const halo::Box& box : boxes_around(outputs, interior_of(task)))
      dw.add_(gradients_of(part_at(dy, box, outputs, task.axes()).contiguous(),
                           saved[next++], saved[1], task, numbers_of(task).none,
                           {false, true, false})
                  .weight);
  }
};

}  // namespace

bool can_overlap(const ConvolutionTask& task) {
  const std::size_t first = task.input.sizes.size() - task.windows.size();
  if (first != 2 || task.input.cut_axes.size() != task.windows.size())
    return false;
  for (std::size_t i = 0; i < task.input.cut_axes.size(); ++i)
    if (task.input.cut_axes[i] != static_cast<int>(first + i)) return false;
  return true;
}

at::Tensor overlapped_convolution(const at::Tensor& local,
                                  const at::Tensor& weight,
                                  const at::Tensor& bias,
                                  const ConvolutionTask& task) {
  return OverlappedConvolution::apply(
      local, weight,
      bias.defined() ? bias : at::zeros({weight.size(0)}, weight.options()),
      &task);
}

}  // namespace sheaf::spatial
