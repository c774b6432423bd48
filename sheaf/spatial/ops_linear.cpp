// Linear layers: of features at each place, and of flattened images.

#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/spatial/dispatch.hpp"
#include "sheaf/spatial/parts.hpp"

namespace sheaf::spatial {
namespace {

// The columns of the weight that belong to this rank's part of the image.
at::Tensor own_columns(const at::Tensor& weight, const Split& split, int flat) {
  std::vector<std::int64_t> sizes{weight.size(0)};
  sizes.insert(sizes.end(), split.sizes.begin() + flat, split.sizes.end());
  at::Tensor columns = weight.view(sizes);
  for (const int axis : split.cut_axes) {
    if (axis < 0) continue;
    const halo::Interval interval = split.interval(axis);
    columns = columns.narrow(axis - flat + 1, interval.begin, interval.size());
  }
  return columns.flatten(1);
}

// Either each rank multiplies its columns, and the results are added up; or all
// get the whole image. Bytes decide: in both cases as many go back.
at::Tensor of_flat(const at::Tensor& given, const at::Tensor& weight,
                   const at::Tensor& bias) {
  const Split& split = split_of(given);
  const int flat = flat_from(given);
  if (weight.size(0) > weight.size(1))
    return at::linear(gather(given), weight, bias);
  const at::Tensor partial = at::linear(local_of(given).flatten(flat),
                                        own_columns(weight, split, flat));
  const at::Tensor sum = sum_over_tiles(partial, split.tiles);
  return bias.defined() ? sum + bias : sum;
}

void linear(Call& call) {
  const at::Tensor given = call.tensor(0);
  const at::Tensor weight = call.tensor(1);
  const at::Tensor bias = call.tensor(2);
  if (!is_split(given)) call.refuse("its weights are split, its input is not");
  const Split& split = split_of(given);
  if (flat_from(given) >= 0) {
    if (flat_from(given) != given.dim() - 1 || weight.size(1) != given.size(-1))
      call.refuse(concat("a weight of ", weight.sizes(), " for an input of ",
                         given.sizes()));
    return call.give(of_flat(given, weight, bias));
  }
  if (split.is_cut(given.dim() - 1))
    call.refuse(
        "the axis of features is cut; move it to the end "
        "(permute), or flatten the image");
  const at::Tensor local = at::linear(local_of(given), weight, bias);
  call.give(make_split(local, split_like(split, local)));
}

}  // namespace

void add_linear_operations(Operations& table) {
  table.emplace("aten::linear", linear);
}

}  // namespace sheaf::spatial
