#include "sheaf/spatial/split/halo_autograd.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>

#include "sheaf/base/error.hpp"
#include "sheaf/spatial/split/notes.hpp"
#include "sheaf/tensor/groups/collectives.hpp"
#include "sheaf/tensor/groups/keep.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::spatial {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Axes that are not cut, followed by the cut axes in grid order.
std::vector<std::int64_t> plain_order(const Split& split) {
  std::vector<std::int64_t> order;
  for (std::size_t axis = 0; axis < split.sizes.size(); ++axis)
    if (!split.is_cut(static_cast<std::int64_t>(axis)))
      order.push_back(static_cast<std::int64_t>(axis));
  for (const int axis : split.cut_axes)
    if (axis >= 0) order.push_back(axis);
  return order;
}

// Reshapes to two axes that are not cut, and one for each axis of the grid.
at::Tensor to_plain(const at::Tensor& local, const Split& split) {
  const at::Tensor ordered = local.permute(plain_order(split));
  const auto cut_count = static_cast<std::int64_t>(
      std::count_if(split.cut_axes.begin(), split.cut_axes.end(),
                    [](int axis) { return axis >= 0; }));
  std::vector<std::int64_t> sizes{1, 1};
  for (std::int64_t i = 0; i < ordered.dim() - cut_count; ++i)
    sizes[i == 0 ? 0 : 1] *= ordered.size(i);
  std::int64_t at = ordered.dim() - cut_count;
  for (const int axis : split.cut_axes)
    sizes.push_back(axis >= 0 ? ordered.size(at++) : 1);
  return ordered.reshape(sizes);
}

// The inverse of to_plain(); the sizes of cut axes may differ.
at::Tensor from_plain(const at::Tensor& plain, const Split& split) {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> back(split.sizes.size());
  const auto order = plain_order(split);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto axis = order[i];
    const int cut = split.grid_axis(axis);
    sizes.push_back(cut >= 0 ? plain.size(2 + cut)
                             : split.sizes[static_cast<std::size_t>(axis)]);
    back[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(i);
  }
  return plain.reshape(sizes).permute(back);
}

// Whether no rank needs data of another rank; the same result on all ranks.
bool is_at_home(const Split& split, const std::vector<halo::Box>& boxes) {
  for (int rank = 0; rank < split.layout.ranks(); ++rank)
    if (!split.layout.box_of(rank).contains(
            boxes[static_cast<std::size_t>(rank)]))
      return false;
  return true;
}

struct HaloTask {
  halo::HaloExchange* exchange = nullptr;
  std::shared_ptr<Tiles> tiles;  // owns the exchange
  std::vector<Need> needs;       // of this rank
  double fill = 0;
  std::vector<std::int64_t> sizes;  // of the part
  // For notes.
  Split split;
  Needs all_needs;
  std::string name;
};

// In backward, sends and receives are swapped.
void note_adjoint(const HaloTask& task, const at::Tensor& plain,
                  std::int64_t bytes_in_place) {
  halo::HaloPlan back = task.exchange->plan();
  std::swap(back.sends, back.receives);
  note_halo(task.split, task.all_needs, back, plain, task.name + ", backward",
            bytes_in_place, false);
}

struct WithHalo : torch::autograd::Function<WithHalo> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& plain,
                            const HaloTask* given) {
    HaloTask task = *given;
    task.sizes = plain.sizes().vec();
    const at::Tensor tile = plain.contiguous();
    LentTiles& lent = task.tiles->lent();
    const auto handle = lent.start(*task.exchange, tile);
    const at::Tensor result = grown_tile(tile, task.needs, task.fill);
    task.exchange->finish(handle, view_of(inside_of(result, task.needs)));
    lent.keep(*task.exchange, handle, tile);
    note_halo(task.split, task.all_needs, task.exchange->plan(), plain,
              task.name, handle.bytes_in_place(), false);
    tensor::keep(context, std::move(task));
    return result;
  }
  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const HaloTask& task = tensor::kept<HaloTask>(context);
    task.tiles->begin_backward();
    LentTiles& lent = task.tiles->lent();
    const at::Tensor wanted = inside_of(gradients[0], task.needs);
    const auto handle = lent.start_adjoint(*task.exchange, wanted);
    const at::Tensor gradient = at::empty(task.sizes, wanted.options());
    task.exchange->finish_adjoint(handle, view_of(gradient));
    lent.keep(*task.exchange, handle, wanted);
    if (task.tiles->is_heard())
      note_adjoint(task, gradient, handle.bytes_in_place());
    return {gradient, {}};
  }
};

// The case without messages.
at::Tensor cropped_and_padded(const at::Tensor& plain, const Split& split,
                              const std::vector<Need>& needs, double fill) {
  at::Tensor result = plain;
  std::vector<std::int64_t> padding;
  bool has_padding = false;
  for (std::size_t i = needs.size(); i-- > 0;) {
    const std::int64_t begin =
        split.layout.box_of(split.tiles->rank()).axes[i].begin;
    const Need& need = needs[i];
    if (split.cut_axes[i] >= 0)
      result =
          result.narrow(static_cast<std::int64_t>(i) + 2,
                        need.inside.is_empty() ? 0 : need.inside.begin - begin,
                        need.inside.size());
    padding.insert(padding.end(), {need.low, need.high});
    has_padding = has_padding || need.low > 0 || need.high > 0;
  }
  return has_padding ? padded(result, padding, fill) : result;
}

struct SumTask {
  std::shared_ptr<Tiles> tiles;
  std::string name;  // for notes
};

at::Tensor sum_of(const at::Tensor& local, Tiles& tiles,
                  const std::string& name) {
  const at::Tensor result = local.contiguous().clone();
  tensor::all_reduce(tiles.group(), result, {.name = "sum over tiles"}).wait();
  tiles.count_reduction(static_cast<std::int64_t>(result.nbytes()));
  note_sum(tiles, result, name);
  return result;
}

struct SumOverTiles : torch::autograd::Function<SumOverTiles> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& local,
                            const SumTask* task) {
    tensor::keep(context, *task);
    return sum_of(local, *task->tiles, task->name);
  }
  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const SumTask& task = tensor::kept<SumTask>(context);
    task.tiles->begin_backward();
    return {sum_of(gradients[0], *task.tiles, task.name + ", backward"), {}};
  }
};

// The view of a rank's part in the whole tensor.
at::Tensor part_in(at::Tensor whole, const Split& split, int rank) {
  for (const int axis : split.cut_axes) {
    if (axis < 0) continue;
    const halo::Interval interval = split.interval(axis, rank);
    whole = whole.narrow(axis, interval.begin, interval.size());
  }
  return whole;
}

struct GatherParts : torch::autograd::Function<GatherParts> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& local,
                            const Split* split) {
    tensor::keep(context, *split);
    Tiles& tiles = *split->tiles;
    const at::Tensor whole = at::empty(split->sizes, local.options());
    std::vector<at::Tensor> parts;
    for (int rank = 0; rank < tiles.group().size(); ++rank)
      parts.push_back(
          at::empty(part_in(whole, *split, rank).sizes(), local.options()));
    tensor::all_gather(tiles.group(), local.contiguous(), parts,
                       {.name = "parts of a split tensor"})
        .wait();
    tiles.count_reduction(static_cast<std::int64_t>(whole.nbytes()));
    for (int rank = 0; rank < tiles.group().size(); ++rank)
      part_in(whole, *split, rank).copy_(parts[static_cast<std::size_t>(rank)]);
    return whole;
  }
  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const Split& split = tensor::kept<Split>(context);
    split.tiles->begin_backward();
    const at::Tensor whole =
        sum_of(gradients[0], *split.tiles, "gather, backward");
    return {part_in(whole, split, split.tiles->rank()).contiguous(), {}};
  }
};

struct CutPart : torch::autograd::Function<CutPart> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& whole,
                            const Split* split) {
    tensor::keep(context, *split);
    return part_in(whole, *split, split->tiles->rank()).clone();
  }
  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const Split& split = tensor::kept<Split>(context);
    split.tiles->begin_backward();
    const at::Tensor whole = at::zeros(split.sizes, gradients[0].options());
    part_in(whole, split, split.tiles->rank()).copy_(gradients[0]);
    return {sum_of(whole, *split.tiles, "cut, backward")
                .div_(split.tiles->group().size()),
            {}};
  }
};

}  // namespace

at::Tensor padded(const at::Tensor& tensor,
                  const std::vector<std::int64_t>& padding,
                  const at::Scalar& value) {
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  for (std::size_t i = 0; 2 * i < padding.size(); ++i)
    sizes[sizes.size() - 1 - i] += padding[2 * i] + padding[2 * i + 1];
  const bool has_nothing =
      std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
  return has_nothing ? nothing_from({tensor}, sizes)
                     : at::constant_pad_nd(tensor, padding, value);
}

at::Tensor nothing_from(const std::vector<at::Tensor>& others,
                        const std::vector<std::int64_t>& sizes) {
  at::Tensor result = at::zeros(sizes, others[0].options());
  for (const at::Tensor& other : others)
    if (other.defined() && other.requires_grad())
      result = result + 0 * other.sum();
  return result;
}

halo::View view_of(const at::Tensor& plain) {
  halo::View view;
  view.data = static_cast<std::byte*>(plain.data_ptr());
  for (std::size_t i = 0; i < 2; ++i) {
    view.outer[i] = plain.sizes()[i];
    view.outer_stride[i] = plain.strides()[i];
  }
  for (std::size_t i = 2; i < static_cast<std::size_t>(plain.dim()); ++i) {
    view.size[i - 2] = plain.sizes()[i];
    view.stride[i - 2] = plain.strides()[i];
  }
  return view;
}

std::vector<halo::Box> boxes_of(const Needs& needs) {
  std::vector<halo::Box> boxes;
  for (const auto& of_rank : needs) {
    halo::Box& box = boxes.emplace_back();
    for (std::size_t i = 0; i < of_rank.size(); ++i)
      box.axes[i] = of_rank[i].inside;
  }
  return boxes;
}

at::Tensor grown_tile(const at::Tensor& plain, const std::vector<Need>& needs,
                      double fill) {
  std::vector<std::int64_t> sizes{plain.size(0), plain.size(1)};
  bool has_padding = false;
  for (const Need& need : needs) {
    sizes.push_back(need.low + need.inside.size() + need.high);
    has_padding = has_padding || need.low > 0 || need.high > 0;
  }
  return has_padding ? at::full(sizes, fill, plain.options())
                     : at::empty(sizes, plain.options());
}

at::Tensor inside_of(at::Tensor grown, const std::vector<Need>& needs) {
  for (std::size_t i = 0; i < needs.size(); ++i)
    grown = grown.narrow(static_cast<std::int64_t>(i) + 2, needs[i].low,
                         needs[i].inside.size());
  return grown;
}

at::Tensor with_halo(const at::Tensor& local, const Split& split,
                     const Needs& needs, double fill) {
  Tiles& tiles = *split.tiles;
  const auto& mine = needs[static_cast<std::size_t>(tiles.rank())];
  const at::Tensor plain = to_plain(local, split);
  const auto boxes = boxes_of(needs);
  if (is_at_home(split, boxes))
    return from_plain(cropped_and_padded(plain, split, mine, fill), split);
  const HaloTask task{&tiles.exchange(split.layout, boxes,
                                      tensor::dtype_of(local.scalar_type())),
                      split.tiles,
                      mine,
                      fill,
                      {},
                      split,
                      needs,
                      CallName::text(tiles)};
  return from_plain(WithHalo::apply(plain, &task), split);
}

at::Tensor sum_over_tiles(const at::Tensor& local,
                          const std::shared_ptr<Tiles>& tiles) {
  const SumTask task{tiles, CallName::text(*tiles)};
  return SumOverTiles::apply(local, &task);
}

at::Tensor gather_parts(const at::Tensor& local, const Split& split) {
  return GatherParts::apply(local, &split);
}

at::Tensor own_part(const at::Tensor& whole, const Split& split) {
  return part_in(whole, split, split.tiles->rank());
}

at::Tensor cut_part(const at::Tensor& whole, const Split& split) {
  return whole.requires_grad() && at::GradMode::is_enabled()
             ? CutPart::apply(whole, &split)
             : own_part(whole, split);
}

}  // namespace sheaf::spatial
