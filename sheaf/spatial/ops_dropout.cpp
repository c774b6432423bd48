// Dropout whose mask is a function of the place in the whole tensor, so that it
// does not depend on the grid.

#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/spatial/dispatch.hpp"

namespace sheaf::spatial {
namespace {

// A well mixed number for each place (splitmix64).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Ones and zeros for a part, of which `axes` count; all elements that differ
// only along others get the same.
at::Tensor mask_of(const Split& split, std::size_t axes, double probability,
                   std::uint64_t seed) {
  std::vector<std::int64_t> local;
  for (std::size_t i = 0; i < split.sizes.size(); ++i)
    local.push_back(
        i < axes ? split.interval(static_cast<std::int64_t>(i)).size() : 1);
  const at::Tensor mask = at::empty(local, at::kFloat);
  float* to = mask.data_ptr<float>();
  const std::int64_t count = mask.numel();
  std::vector<std::int64_t> place(axes, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t index = 0;
    for (std::size_t axis = 0; axis < axes; ++axis)
      index = index * static_cast<std::uint64_t>(split.sizes[axis]) +
              static_cast<std::uint64_t>(
                  place[axis] +
                  split.interval(static_cast<std::int64_t>(axis)).begin);
    const double uniform =
        static_cast<double>(mixed(mixed(seed) ^ index) >> 11) * 0x1p-53;
    to[i] = uniform < probability ? 0.f : 1.f;
    for (std::size_t axis = axes; axis-- > 0;) {
      if (++place[axis] < local[axis]) break;
      place[axis] = 0;
    }
  }
  return mask;
}

// Whole channels are dropped with two axes, else elements.
template <bool kChannels>
void dropout(Call& call) {
  const at::Tensor given = call.tensor(0);
  const double probability = call[1].toDouble();
  if (!call[2].toBool() || probability == 0) return call.give(given);
  const Split& split = split_of(given);
  const at::Tensor mask = mask_of(split, kChannels ? 2 : split.sizes.size(),
                                  probability, split.tiles->next_seed())
                              .to(local_of(given).options());
  const double scale = probability < 1 ? 1 / (1 - probability) : 0;
  const auto& alias = call.op().schema().arguments()[0].alias_info();
  if (alias && alias->isWrite()) {
    local_of(given).mul_(mask * scale);
    return call.give(given);
  }
  call.give(
      make_split(local_of(given) * (mask * scale), split, flat_from(given)));
}

}  // namespace

void add_dropout_operations(Operations& table) {
  table.emplace("aten::dropout", dropout<false>);
  table.emplace("aten::dropout_", dropout<false>);
  table.emplace("aten::feature_dropout", dropout<true>);
  table.emplace("aten::feature_dropout_", dropout<true>);
}

}  // namespace sheaf::spatial
