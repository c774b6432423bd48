#include "sheaf/spatial/ops/overlapped_conv.hpp"

#include <torch/torch.h>

#include "sheaf/parallel/common/keep.hpp"
#include "sheaf/spatial/split/notes.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::spatial {
namespace {

using Sizes = std::vector<std::int64_t>;
using parallel::keep;
using parallel::kept;
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
    keep(context, *task);
    context->saved_data["name"] = name;
    return result;
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const ConvolutionTask& task = kept<ConvolutionTask>(context);
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
