// Dropout with a mask that is a function of the position in the whole tensor,
// so that it does not depend on the grid.

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "sheaf/spatial/split/dispatch.hpp"

namespace sheaf::spatial {
namespace {

// A hash of the position (splitmix64).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The elements of a part that get separate mask values: those of the first
// `axes` axes. Elements that differ only along the other axes share a value.
// Rows are along the last of the first `axes` axes.
struct MaskShape {
  std::vector<std::int64_t> sizes;  // of the part; 1 along the other axes
  std::size_t axes;
  const Split& split;

  std::int64_t columns() const { return sizes[axes - 1]; }
  // The linear index of a row's first element in the whole tensor.
  std::uint64_t first_of(std::int64_t row) const {
    std::uint64_t number = 0, stride = 1;
    for (std::size_t axis = axes; axis-- > 0;) {
      std::int64_t place = 0;
      if (axis + 1 < axes) {
        place = row % sizes[axis];
        row /= sizes[axis];
      }
      const std::int64_t begin =
          split.interval(static_cast<std::int64_t>(axis)).begin;
      number += static_cast<std::uint64_t>(begin + place) * stride;
      stride *= static_cast<std::uint64_t>(split.sizes[axis]);
    }
    return number;
  }
};

MaskShape mask_shape(const Split& split, std::size_t axes) {
  MaskShape shape{{}, axes, split};
  for (std::size_t i = 0; i < split.sizes.size(); ++i)
    shape.sizes.push_back(
        i < axes ? split.interval(static_cast<std::int64_t>(i)).size() : 1);
  return shape;
}

// Sets elements to zero with the given probability, otherwise to `kept`.
// Compares 53 random bits with the scaled probability, which scales without
// rounding.
template <class T>
void fill_mask(T* to, std::int64_t count, const MaskShape& shape,
               double probability, std::uint64_t seed, T kept) {
  const auto bound =
      static_cast<std::uint64_t>(std::ceil(probability * 0x1p53));
  const std::uint64_t key = mixed(seed);
  const std::int64_t columns = shape.columns();
  constexpr std::int64_t kElementsPerThread = 32768;
  at::parallel_for(
      0, count / columns,
      std::max<std::int64_t>(1, kElementsPerThread / columns),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::uint64_t first = shape.first_of(row);
          T* const at = to + row * columns;
          for (std::int64_t i = 0; i < columns; ++i)
            at[i] = (mixed(key ^ (first + static_cast<std::uint64_t>(i))) >>
                     11) < bound
                        ? T(0)
                        : kept;
        }
      });
}

// The factors of dropout: zeros and 1 / (1 - probability).
at::Tensor mask_of(const Split& split, std::size_t axes, double probability,
                   std::uint64_t seed, const at::TensorOptions& options) {
  const MaskShape shape = mask_shape(split, axes);
  const at::Tensor mask = at::empty(shape.sizes, options);
  if (mask.numel() == 0) return mask;
  const double kept = probability < 1 ? 1 / (1 - probability) : 0;
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, mask.scalar_type(), "dropout of tiles", [&] {
        fill_mask<scalar_t>(mask.data_ptr<scalar_t>(), mask.numel(), shape,
                            probability, seed, static_cast<scalar_t>(kept));
      });
  return mask;
}

// With kChannels, drops whole channels (the first two axes), otherwise
// elements.
template <bool kChannels>
void dropout(Call& call) {
  const at::Tensor given = call.tensor(0);
  const double probability = call[1].toDouble();
  if (!call[2].toBool() || probability == 0) return call.give(given);
  const Split& split = split_of(given);
  if (kChannels && split.sizes.size() < 2) call.refuse("it has no channels");
  const at::Tensor& local = local_of(given);
  const at::Tensor mask =
      mask_of(split, kChannels ? 2 : split.sizes.size(), probability,
              split.tiles->next_seed(), at::TensorOptions(local.scalar_type()));
  const auto& alias = call.op().schema().arguments()[0].alias_info();
  if (alias && alias->isWrite()) {
    local.mul_(mask);
    return call.give(given);
  }
  call.give(make_split(local * mask, split, flat_from(given)));
}

}  // namespace

void add_dropout_operations(Operations& table) {
  table.emplace("aten::dropout", Rule{dropout<false>, Flat::kTaken});
  table.emplace("aten::dropout_", Rule{dropout<false>, Flat::kTaken});
  table.emplace("aten::feature_dropout", dropout<true>);
  table.emplace("aten::feature_dropout_", dropout<true>);
}

}  // namespace sheaf::spatial
