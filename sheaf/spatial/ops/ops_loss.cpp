// Losses: each rank computes those of its elements, then the sum or mean is
// taken over all ranks.

#include <ATen/core/Reduction.h>
#include <torch/torch.h>

#include <limits>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/spatial/split/dispatch.hpp"
#include "sheaf/spatial/split/halo_autograd.hpp"

namespace sheaf::spatial {
namespace {

// For losses whose input, target and weights broadcast.
void elementwise(Call& call) {
  const Split split = split_of(first_split(call));
  const auto place = call.place("reduction");
  if (!place) call.refuse("it has no argument 'reduction'");
  const std::int64_t reduction = call[*place].toInt();
  for (std::size_t i = 0; i < call.count(); ++i)
    if (call[i].isTensor()) call[i] = part_like(call, call.tensor(i), split);
  call[*place] = std::int64_t{at::Reduction::None};
  call.compute();
  const at::Tensor local = call.result(0).toTensor();
  if (reduction == at::Reduction::None) {
    call.result(0) = make_split(local, split_like(split, local));
    return;
  }
  at::Tensor sum = sum_over_tiles(local.sum(), split.tiles);
  if (reduction == at::Reduction::Mean) {
    double count = 1;
    for (const std::int64_t size : split_like(split, local).sizes)
      count *= static_cast<double>(size);
    sum = sum / count;
  }
  call.result(0) = sum;
}

// Replaces ignored targets, which may have any value, with class 0.
at::Tensor counted_classes(const at::Tensor& target, std::int64_t ignored) {
  return target.masked_fill(target == ignored, 0);
}

struct ClassRange {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

// The range over all tiles of a split target.
ClassRange classes_in(const at::Tensor& target, std::int64_t ignored) {
  const at::Tensor own =
      counted_classes(is_split(target) ? local_of(target) : target, ignored);
  ClassRange range{std::numeric_limits<std::int64_t>::max(), -1};
  if (own.numel() > 0)
    range = {own.min().item<std::int64_t>(), own.max().item<std::int64_t>()};
  if (!is_split(target)) return range;
  // The minimum of ~x gives the maximum of x.
  std::vector<std::int64_t> ends{range.least, ~range.most};
  Tiles& tiles = *split_of(target).tiles;
  comm::all_reduce(tiles.group(), ends,
                   {.op = comm::ReduceOp::kMin, .name = "classes of targets"})
      .wait();
  tiles.count_reduction(2 * sizeof(std::int64_t));
  return {ends[0], ~ends[1]};
}

// All ranks get the same result, so that none waits for a rank that has thrown.
void check_classes(Call& call, const at::Tensor& target, std::int64_t classes,
                   std::int64_t ignored) {
  const auto [least, most] = classes_in(target, ignored);
  SHEAF_CHECK(least >= 0 && most < classes, call.name(),
              ": targets have classes from ", least, " to ", most,
              ", but the input has ", classes, " (0 to ", classes - 1,
              "); ignore_index is ", ignored);
}

// Classes are along axis 1; the mean weights positions by their classes.
void nll(Call& call) {
  const at::Tensor given = call.tensor(0);
  if (!is_split(given)) call.refuse("its target is split, its input is not");
  const Split split = split_of(given);
  if (split.is_cut(1)) call.refuse("the axis of classes is cut");
  Split of_target = split;
  of_target.sizes.erase(of_target.sizes.begin() + 1);
  for (int& cut : of_target.cut_axes)
    if (cut > 1) --cut;
  const at::Tensor target = part_like(call, call.tensor(1), of_target);
  const at::Tensor weight = call.tensor(2);
  const std::int64_t reduction = call[3].toInt();
  const std::int64_t ignored = call[4].toInt();
  check_classes(call, call.tensor(1), given.size(1), ignored);
  const at::Tensor local = at::nll_loss_nd(local_of(given), target, weight,
                                           at::Reduction::None, ignored);
  if (reduction == at::Reduction::None)
    return call.give(make_split(local, of_target));
  const at::Tensor sum = sum_over_tiles(local.sum(), split.tiles);
  if (reduction == at::Reduction::Sum) return call.give(sum);
  const at::NoGradGuard no_grad;
  const at::Tensor counts = target != ignored;
  const at::Tensor total = sum_over_tiles(
      weight.defined() ? (weight.index_select(
                              0, counted_classes(target, ignored).flatten()) *
                          counts.flatten())
                             .sum()
                       : counts.sum().to(local.scalar_type()),
      split.tiles);
  const at::AutoGradMode with_grad(sum.requires_grad());
  call.give(sum / total);
}

}  // namespace

void add_loss_operations(Operations& table) {
  for (const char* name :
       {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
        "binary_cross_entropy", "binary_cross_entropy_with_logits",
        "soft_margin_loss", "kl_div", "poisson_nll_loss"})
    table.emplace(concat("aten::", name), elementwise);
  for (const char* name : {"nll_loss", "nll_loss2d", "nll_loss_nd"})
    table.emplace(concat("aten::", name), nll);
}

}  // namespace sheaf::spatial
