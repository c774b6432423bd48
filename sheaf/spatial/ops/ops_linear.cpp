// Linear layers on the features of each position, and on flattened images.

#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/spatial/split/dispatch.hpp"
#include "sheaf/spatial/split/halo_autograd.hpp"

namespace sheaf::spatial {
namespace {

// The columns of the weight that belong to this rank's part of the image.
at::Tensor own_columns(const at::Tensor& weight, const Split& split, int flat) {
  std::vector<std::int64_t> sizes{weight.size(0)};
  sizes.insert(sizes.end(), split.sizes.begin() + flat, split.sizes.end());
  at::Tensor columns = weight.reshape(sizes);
  for (const int axis : split.cut_axes) {
    if (axis < 0) continue;
    const halo::Interval interval = split.interval(axis);
    columns = columns.narrow(axis - flat + 1, interval.begin, interval.size());
  }
  return columns.flatten(1);
}

// The first axis of the features: for flattened images, or the last axis if it
// is the only cut one; otherwise -1.
int first_feature_axis(const at::Tensor& given) {
  if (flat_from(given) >= 0) return flat_from(given);
  const Split& split = split_of(given);
  const auto last = static_cast<int>(split.sizes.size()) - 1;
  for (const int cut : split.cut_axes)
    if (cut >= 0 && cut != last) return -1;
  return split.is_cut(last) ? last : -1;
}

// Either each rank multiplies its columns and the results are summed, or all
// ranks gather the whole image. The one with fewer bytes is chosen; backward
// sends the same number in both cases.
at::Tensor of_flat(const at::Tensor& given, const at::Tensor& weight,
                   const at::Tensor& bias, int flat) {
  const Split& split = split_of(given);
  if (weight.size(0) > weight.size(1))
    return at::linear(gather(given), weight, bias);
  const at::Tensor partial = at::linear(local_of(given).flatten(flat),
                                        own_columns(weight, split, flat));
  const at::Tensor sum = sum_over_tiles(partial, split.tiles);
  return bias.defined() ? sum + bias : sum;
}

at::Tensor linear(Call& call, const at::Tensor& given, const at::Tensor& weight,
                  const at::Tensor& bias) {
  if (!is_split(given) || is_split(weight) || is_split(bias))
    call.refuse("its weight or bias is split, or its input is not");
  const Split& split = split_of(given);
  if (weight.dim() != 2 || weight.size(1) != given.size(-1))
    call.refuse(concat("a weight of ", weight.sizes(), " for an input of ",
                       given.sizes()));
  if (const int flat = first_feature_axis(given); flat >= 0)
    return of_flat(given, weight, bias, flat);
  if (split.is_cut(given.dim() - 1))
    call.refuse(
        "the axis of features is cut; move it to the end (permute), or flatten "
        "the image");
  const at::Tensor local = at::linear(local_of(given), weight, bias);
  return make_split(local, split_like(split, local));
}

void linear(Call& call) {
  call.give(linear(call, call.tensor(0), call.tensor(1), call.tensor(2)));
}

// The transpose of a factor that must be a matrix and not split.
at::Tensor weight_of(Call& call, std::size_t i) {
  const at::Tensor factor = call.tensor(i);
  if (is_split(factor) || factor.dim() != 2)
    call.refuse("its second factor is split or is not a matrix");
  return factor.t();
}

// x W, as used by torch::nn::Linear for inputs with more than two axes.
void matmul(Call& call) {
  call.give(linear(call, call.tensor(0), weight_of(call, 1), {}));
}

// bias + x W, used for inputs with two axes.
void addmm(Call& call) {
  if (call[3].toScalar().toDouble() != 1 || call[4].toScalar().toDouble() != 1)
    call.refuse("factors alpha and beta other than 1 are not supported");
  call.give(linear(call, call.tensor(1), weight_of(call, 2), call.tensor(0)));
}

}  // namespace

void add_linear_operations(Operations& table) {
  table.emplace("aten::linear",
                Rule{static_cast<Operation>(linear), Flat::kTaken});
  table.emplace("aten::matmul", Rule{matmul, Flat::kTaken});
  table.emplace("aten::mm", Rule{matmul, Flat::kTaken});
  table.emplace("aten::addmm", Rule{addmm, Flat::kTaken});
}

}  // namespace sheaf::spatial
