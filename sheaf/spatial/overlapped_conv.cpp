#include "sheaf/spatial/overlapped_conv.hpp"

#include <torch/torch.h>

#include "sheaf/parallel/keep.hpp"
#include "sheaf/spatial/notes.hpp"
#include "sheaf/tensor/dtype.hpp"

namespace sheaf::spatial {
namespace {

using Sizes = std::vector<std::int64_t>;
using Intervals = std::vector<halo::Interval>;
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

// A box of a tensor whose axes from 2 on begin at the box's origin.
at::Tensor part_at(at::Tensor tensor, const Intervals& box,
                   const Intervals& origin) {
  for (std::size_t i = 0; i < box.size(); ++i)
    tensor = tensor.narrow(static_cast<std::int64_t>(i) + 2,
                           box[i].begin - origin[i].begin, box[i].size());
  return tensor;
}

bool is_empty(const Intervals& box) {
  for (const halo::Interval& interval : box)
    if (interval.is_empty()) return true;
  return false;
}

Intervals box_of(const Split& split) {
  Intervals box;
  for (const int axis : split.cut_axes) box.push_back(split.interval(axis));
  return box;
}

// Outputs that need this rank's inputs only.
Intervals interior_of(const ConvolutionTask& task) {
  Intervals box;
  const Intervals own = box_of(task.input), outputs = box_of(task.plan.output);
  for (std::size_t i = 0; i < own.size(); ++i)
    box.push_back(
        halo::interior(task.windows[i], outputs[i], own[i],
                       task.input.layout.cuts(static_cast<int>(i)).size()));
  return box;
}

at::Tensor interior(const at::Tensor& tile, const at::Tensor& weight,
                    const at::Tensor& bias, const ConvolutionTask& task,
                    const Intervals& wanted) {
  const Intervals own = box_of(task.input);
  Intervals inside;
  Sizes both, border;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const halo::Padded padded =
        halo::clamp(halo::needed(task.windows[i], wanted[i]),
                    task.input.layout.cuts(static_cast<int>(i)).size());
    inside.push_back(padded.inside);
    both.push_back(std::min(padded.low, padded.high));
    border.insert(border.begin(),
                  {padded.low - both[i], padded.high - both[i]});
  }
  at::Tensor input = part_at(tile, inside, own);
  if (std::any_of(border.begin(), border.end(),
                  [](std::int64_t size) { return size > 0; }))
    input = at::constant_pad_nd(input, border, 0);
  return convolve(input, weight, bias, task, both);
}

// What is left of `whole` around `inner`: along each axis two strips, which
// reach over all of the axes after it.
std::vector<Intervals> strips(const Intervals& whole, const Intervals& inner) {
  std::vector<Intervals> list;
  Intervals rest = whole;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const halo::Interval& side :
         {halo::Interval{whole[i].begin, inner[i].begin},
          halo::Interval{inner[i].end, whole[i].end}}) {
      if (side.is_empty()) continue;
      list.push_back(rest);
      list.back()[i] = side;
    }
    rest[i] = inner[i];
  }
  return list;
}

// The inputs of some outputs, in the grown tile, which begins with what the
// first of all outputs looks at.
Intervals inputs_of(const ConvolutionTask& task, const Intervals& outputs,
                    const Intervals& all) {
  Intervals inputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const halo::Window& window = task.windows[i];
    const std::int64_t begin =
        (outputs[i].begin - all[i].begin) * window.stride;
    inputs.push_back({begin, begin + (outputs[i].size() - 1) * window.stride +
                                 window.extent()});
  }
  return inputs;
}

// The outputs whose gradients each rank's inputs need.
Needs needs_of_gradient(const ConvolutionTask& task) {
  Needs needs;
  const halo::Layout& outputs = task.plan.output.layout;
  for (int rank = 0; rank < outputs.ranks(); ++rank) {
    auto& of_rank = needs.emplace_back();
    const halo::Box own = task.input.layout.box_of(rank);
    for (std::size_t i = 0; i < task.windows.size(); ++i) {
      const auto axis = static_cast<int>(i);
      of_rank.push_back({own.is_empty()
                             ? halo::Interval{}
                             : halo::touching(task.windows[i], own[axis],
                                              outputs.cuts(axis).size()),
                         0, 0});
    }
  }
  return needs;
}

// Out of the gradients of `outputs`, for this rank's inputs.
at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& weight,
                          const ConvolutionTask& task,
                          const Intervals& outputs) {
  const Intervals own = box_of(task.input);
  Sizes sizes{gradient.size(0), weight.size(1) * task.groups};
  for (const halo::Interval& interval : own) sizes.push_back(interval.size());
  if (is_empty(outputs) || is_empty(own))
    return at::zeros(sizes, gradient.options());
  const Numbers numbers = numbers_of(task);
  // Of its input only the size counts. (A transposed convolution would be the
  // same, by slower kernels.)
  Sizes reach{gradient.size(0), sizes[1]};
  for (std::size_t i = 0; i < own.size(); ++i)
    reach.push_back(halo::needed(task.windows[i], outputs[i]).size());
  const at::Tensor made = std::get<0>(at::convolution_backward(
      gradient, at::empty(reach, gradient.options()), weight,
      at::OptionalIntArrayRef(), numbers.stride, numbers.none, numbers.dilation,
      false, numbers.none, task.groups, {true, false, false}));
  Sizes border;
  for (std::size_t i = own.size(); i-- > 0;) {
    const halo::Interval reached = halo::needed(task.windows[i], outputs[i]);
    border.push_back(reached.begin - own[i].begin);
    border.push_back(own[i].end - reached.end);
  }
  return at::constant_pad_nd(made, border, 0);
}

struct OverlappedConvolution
    : torch::autograd::Function<OverlappedConvolution> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& local,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const ConvolutionTask* task) {
    Tiles& tiles = *task->input.tiles;
    const auto& needs =
        task->plan.needs[static_cast<std::size_t>(tiles.rank())];
    halo::HaloExchange& exchange =
        tiles.exchange(task->input.layout, boxes_of(task->plan.needs),
                       tensor::dtype_of(local.scalar_type()));
    const at::Tensor tile = local.contiguous();
    const auto handle = exchange.start(view_of(tile));
    const Intervals outputs = box_of(task->plan.output);
    Sizes sizes{tile.size(0), weight.size(0)};
    for (const halo::Interval& interval : outputs)
      sizes.push_back(interval.size());
    const at::Tensor result = at::empty(sizes, tile.options());
    const Intervals inner = interior_of(*task);
    const bool has_interior = !is_empty(inner);
    if (has_interior)
      part_at(result, inner, outputs)
          .copy_(interior(tile, weight, bias, *task, inner));
    const at::Tensor grown = grown_tile(tile, needs, 0);
    exchange.finish(handle, view_of(inside_of(grown, needs)));
    const std::string name = CallName::text(tiles);
    note_halo(task->input, task->plan.needs, exchange.plan(), tile, name, true);
    const Intervals origin(outputs.size());
    const auto rest =
        has_interior ? strips(outputs, inner) : std::vector<Intervals>{outputs};
    for (const Intervals& strip : rest) {
      if (is_empty(strip)) continue;
      part_at(result, strip, outputs)
          .copy_(
              convolve(part_at(grown, inputs_of(*task, strip, outputs), origin),
                       weight, bias, *task, Sizes(outputs.size(), 0)));
    }
    context->save_for_backward({grown, weight});
    context->saved_data["has_input_gradient"] = local.requires_grad();
    keep(context, *task);
    context->saved_data["name"] = name;
    return result;
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const ConvolutionTask& task = kept<ConvolutionTask>(context);
    const auto saved = context->get_saved_variables();
    const at::Tensor& grown = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor dy = gradients[0].contiguous();
    Tiles& tiles = *task.input.tiles;
    const bool sends = context->saved_data["has_input_gradient"].toBool();
    const Needs needs = needs_of_gradient(task);
    halo::HaloExchange* exchange = nullptr;
    halo::HaloExchange::Handle handle;
    if (sends) {
      exchange = &tiles.exchange(task.plan.output.layout, boxes_of(needs),
                                 tensor::dtype_of(dy.scalar_type()));
      handle = exchange->start(view_of(dy));
    }
    at::Tensor dw = at::zeros_like(weight);
    at::Tensor db = at::zeros({weight.size(0)}, weight.options());
    if (dy.numel() > 0) {
      const Numbers numbers = numbers_of(task);
      std::tie(std::ignore, dw, db) = at::convolution_backward(
          dy, grown, weight, Sizes{weight.size(0)}, numbers.stride,
          numbers.none, numbers.dilation, false, numbers.none, task.groups,
          {false, true, true});
    }
    at::Tensor dx;
    if (sends) {
      const auto& mine = needs[static_cast<std::size_t>(tiles.rank())];
      Sizes sizes{dy.size(0), dy.size(1)};
      Intervals box;
      for (const Need& need : mine) {
        sizes.push_back(need.inside.size());
        box.push_back(need.inside);
      }
      const at::Tensor fetched = at::empty(sizes, dy.options());
      exchange->finish(handle, view_of(fetched));
      note_halo(task.plan.output, needs, exchange->plan(), dy,
                context->saved_data["name"].toStringRef() + ", backward", true);
      dx = input_gradient(fetched, weight, task, box);
    }
    return {dx, dw, db, {}};
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
