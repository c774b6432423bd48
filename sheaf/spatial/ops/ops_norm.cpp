// Normalization: the moments are those of the whole image.

#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/common/sync_batch_norm.hpp"
#include "sheaf/spatial/split/dispatch.hpp"
#include "sheaf/spatial/split/halo_autograd.hpp"
#include "sheaf/spatial/split/notes.hpp"

namespace sheaf::spatial {
namespace {

using Sizes = std::vector<std::int64_t>;

at::Tensor input_of(Call& call) {
  const at::Tensor given = call.tensor(0);
  if (!is_split(given)) call.refuse("its input is not split");
  return given;
}

at::Tensor per_channel(const at::Tensor& values, std::int64_t axes) {
  Sizes sizes(static_cast<std::size_t>(axes), 1);
  sizes[1] = -1;
  return values.view(sizes);
}

// The grid, or a wider group if use_sync_batch_norm() has set one.
comm::Group moments_group(const Tiles& tiles, const at::Tensor& running_mean,
                          const at::Tensor& weight) {
  const comm::Group wider =
      parallel::sync_batch_norm_group(running_mean, weight);
  if (!wider.is_member()) return tiles.group();
  SHEAF_CHECK(wider.size() >= tiles.group().size(), "batch normalization over ",
              wider.size(), " ranks for images that are cut over ",
              tiles.group().size(),
              "; pass the group of SpatialParallel to "
              "use_sync_batch_norm()");
  return wider;
}

// Counts the messages of sync_batch_norm(): sums and a count, then sums of
// squares; in backward, two sums in one message.
void count_moments(const std::shared_ptr<Tiles>& tiles, const at::Tensor& input,
                   const at::Tensor& result) {
  const std::int64_t channels = input.size(1);
  const std::int64_t size = input.scalar_type() == at::kDouble ? 8 : 4;
  const std::string name = CallName::text(*tiles);
  tiles->count_reduction((channels + 1) * size);
  tiles->count_reduction(channels * size);
  note_sums(*tiles, 2, (2 * channels + 1) * size, name);
  if (!result.requires_grad()) return;
  result.register_hook([=](const at::Tensor&) {
    tiles->count_reduction(2 * channels * size);
    note_sums(*tiles, 1, 2 * channels * size, name + ", backward");
  });
}

void batch_norm(Call& call) {
  const at::Tensor given = input_of(call);
  const Split& split = split_of(given);
  if (split.is_cut(1)) call.refuse("the channels are cut");
  const at::Tensor mean = call.tensor(3);
  const bool is_training = call[5].toBool() || !mean.defined();
  const double momentum = call[6].toDouble(), eps = call[7].toDouble();
  const at::Tensor& local = local_of(given);
  const at::Tensor weight = call.tensor(1), bias = call.tensor(2);
  if (!is_training)
    return call.give(
        make_split(at::batch_norm(local, weight, bias, mean, call.tensor(4),
                                  false, momentum, eps, false),
                   split));
  const at::Tensor result = parallel::sync_batch_norm(
      local, weight, bias, mean, call.tensor(4), momentum, eps,
      moments_group(*split.tiles, mean, weight));
  count_moments(split.tiles, local, result);
  call.give(make_split(result, split));
}

// (x - mean) / sqrt(variance + eps) over axes of the part, where each mean
// covers `count` elements of the whole tensor. Two sums: the squares are summed
// after centering, because squares of large means would lose precision.
at::Tensor normalized(const at::Tensor& local, const Sizes& axes, double count,
                      const Split& split, double eps,
                      at::Tensor* mean_out = nullptr,
                      at::Tensor* variance_out = nullptr) {
  const at::Tensor mean =
      sum_over_tiles(local.sum(axes, true), split.tiles) / count;
  const at::Tensor centred = local - mean;
  const at::Tensor variance =
      sum_over_tiles(centred.square().sum(axes, true), split.tiles) / count;
  if (mean_out) *mean_out = mean;
  if (variance_out) *variance_out = variance;
  return centred * (variance + eps).rsqrt();
}

double places_of(const Split& split, std::size_t first) {
  double count = 1;
  for (std::size_t i = first; i < split.sizes.size(); ++i)
    count *= static_cast<double>(split.sizes[i]);
  return count;
}

// Reshapes to samples x groups x the rest.
void group_norm(Call& call) {
  const at::Tensor given = input_of(call);
  const Split& split = split_of(given);
  if (split.is_cut(0) || split.is_cut(1))
    call.refuse("samples or channels are cut");
  const std::int64_t groups = call[1].toInt();
  const at::Tensor& local = local_of(given);
  Sizes sizes{local.size(0), groups, local.size(1) / groups};
  sizes.insert(sizes.end(), local.sizes().begin() + 2, local.sizes().end());
  Sizes axes;
  for (std::size_t i = 2; i < sizes.size(); ++i)
    axes.push_back(static_cast<std::int64_t>(i));
  at::Tensor result =
      normalized(local.reshape(sizes), axes,
                 places_of(split, 2) * static_cast<double>(sizes[2]), split,
                 call[4].toDouble())
          .reshape(local.sizes());
  if (call.tensor(2).defined())
    result = result * per_channel(call.tensor(2), local.dim());
  if (call.tensor(3).defined())
    result = result + per_channel(call.tensor(3), local.dim());
  call.give(make_split(result, split));
}

// Normalizes over the last axes; the weights are cut in the same way.
void layer_norm(Call& call) {
  const at::Tensor given = input_of(call);
  const Split& split = split_of(given);
  const auto count = call[1].toIntVector().size();
  const std::size_t first = split.sizes.size() - count;
  bool is_any_cut = false;
  bool are_all_cut = true;
  for (const int cut : split.cut_axes) {
    const bool is_inside = cut >= static_cast<int>(first);
    is_any_cut = is_any_cut || is_inside;
    are_all_cut = are_all_cut && is_inside;
  }
  const at::Tensor weight = part_like(call, call.tensor(2), split);
  const at::Tensor bias = part_like(call, call.tensor(3), split);
  const at::Tensor& local = local_of(given);
  if (!is_any_cut)
    return call.give(
        make_split(at::layer_norm(local, call[1].toIntVector(), weight, bias,
                                  call[4].toDouble()),
                   split));
  if (!are_all_cut)
    call.refuse("it normalizes over some of the cut axes, but not over all");
  Sizes axes;
  for (std::size_t i = first; i < split.sizes.size(); ++i)
    axes.push_back(static_cast<std::int64_t>(i));
  at::Tensor result = normalized(local, axes, places_of(split, first), split,
                                 call[4].toDouble());
  if (weight.defined()) result = result * weight;
  if (bias.defined()) result = result + bias;
  call.give(make_split(result, split));
}

// Normalizes each channel of each sample separately; the running statistics are
// means over samples.
void instance_norm(Call& call) {
  const at::Tensor given = input_of(call);
  const Split& split = split_of(given);
  if (split.is_cut(0) || split.is_cut(1))
    call.refuse("samples or channels are cut");
  const at::Tensor& local = local_of(given);
  const at::Tensor running_mean = call.tensor(3);
  const at::Tensor running_variance = call.tensor(4);
  const double momentum = call[6].toDouble();
  const double eps = call[7].toDouble();
  at::Tensor result;
  if (call[5].toBool()) {
    Sizes axes;
    for (std::int64_t i = 2; i < local.dim(); ++i) axes.push_back(i);
    const double count = places_of(split, 2);
    at::Tensor mean, variance;
    result = normalized(local, axes, count, split, eps, &mean, &variance);
    if (running_mean.defined()) {
      const at::NoGradGuard no_grad;
      running_mean.mul_(1 - momentum).add_(mean.mean(0).flatten(), momentum);
      running_variance.mul_(1 - momentum)
          .add_(variance.mean(0).flatten(), momentum * count / (count - 1));
    }
  } else {
    result = (local - per_channel(running_mean, local.dim())) *
             (per_channel(running_variance, local.dim()) + eps).rsqrt();
  }
  if (call.tensor(1).defined())
    result = result * per_channel(call.tensor(1), local.dim());
  if (call.tensor(2).defined())
    result = result + per_channel(call.tensor(2), local.dim());
  call.give(make_split(result, split));
}

}  // namespace

void add_norm_operations(Operations& table) {
  table.emplace("aten::batch_norm", batch_norm);
  table.emplace("aten::group_norm", group_norm);
  table.emplace("aten::layer_norm", layer_norm);
  table.emplace("aten::instance_norm", instance_norm);
}

}  // namespace sheaf::spatial
