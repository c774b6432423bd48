#include "sheaf/parallel/module_tensors.hpp"

#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <unordered_set>

#include "sheaf/base/error.hpp"

namespace sheaf::parallel {
namespace {

std::unordered_set<const void*> sparse_weights(torch::nn::Module& module) {
  std::unordered_set<const void*> weights;
  for (const auto& child : module.modules()) {
    if (auto* plain = child->as<torch::nn::EmbeddingImpl>();
        plain && plain->options.sparse())
      weights.insert(plain->weight.unsafeGetTensorImpl());
    if (auto* bag = child->as<torch::nn::EmbeddingBagImpl>();
        bag && bag->options.sparse())
      weights.insert(bag->weight.unsafeGetTensorImpl());
  }
  return weights;
}

}  // namespace

NamedTensors unique_parameters(torch::nn::Module& module) {
  NamedTensors list;
  std::unordered_set<const void*> seen;
  for (const auto& item : module.named_parameters())
    if (seen.insert(item.value().unsafeGetTensorImpl()).second)
      list.emplace_back(item.key(), item.value());
  return list;
}

NamedTensors buffers_of(torch::nn::Module& module) {
  NamedTensors list;
  for (const auto& item : module.named_buffers())
    if (item.value().defined()) list.emplace_back(item.key(), item.value());
  return list;
}

NamedTensors without(NamedTensors list, const NamedTensors& known) {
  std::erase_if(list, [&](const auto& one) {
    return std::any_of(known.begin(), known.end(), [&](const auto& other) {
      return one.second.is_same(other.second);
    });
  });
  return list;
}

std::vector<ReducedParameter> trained_parameters(
    torch::nn::Module& module, const NamedTensors& parameters) {
  const auto sparse = sparse_weights(module);
  std::vector<ReducedParameter> list;
  for (const auto& [name, tensor] : parameters)
    if (tensor.requires_grad())
      list.push_back(
          {name, tensor, sparse.count(tensor.unsafeGetTensorImpl()) > 0});
  return list;
}

void check_not_empty(const std::vector<ReducedParameter>& list) {
  SHEAF_CHECK(!list.empty(),
              "no parameter of the module requires a gradient: there is "
              "nothing to average, and there is no need to wrap it");
}

}  // namespace sheaf::parallel
