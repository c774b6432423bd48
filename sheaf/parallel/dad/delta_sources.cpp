#include "sheaf/parallel/dad/delta_sources.hpp"

namespace sheaf::parallel {
namespace {

void derive(const SeenProduct& below, const SeenProduct& above,
            Activation activation) {
  const auto chain = std::make_shared<DeltaChain>();
  below.block->source = {above.block->key, activation};
  below.block->chain = chain;
  above.tap->begin(chain);
  if (activation != Activation::kIdentity)
    watch_function(*above.nodes.input, chain);
  below.tap->end(chain);
}

}  // namespace

// Deltas are derived only if both layers have been called once: then their rows
// correspond to each other.
void find_delta_sources(
    const std::vector<SeenProduct>& seen,
    const std::vector<at::Tensor*>& outputs,
    const std::function<bool(std::size_t, std::size_t)>& can_derive) {
  std::vector<LayerNodes> layers;
  for (const SeenProduct& one : seen) layers.push_back(one.nodes);
  const auto above = find_above(layers, outputs);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (!above[i]) continue;
    const SeenProduct& from = seen[above[i]->layer];
    if (can_derive(from.weight, seen[i].weight) &&
        seen[i].block->calls.size() == 1 && from.block->calls.size() == 1)
      derive(seen[i], from, above[i]->activation);
  }
}

}  // namespace sheaf::parallel
