#include "sheaf/parallel/common/module_tensors.hpp"

#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <unordered_set>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/common/wrapped_parameters.hpp"

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

// The tensors of `list` that are not in `known`.
NamedTensors without(NamedTensors list, const NamedTensors& known) {
  std::erase_if(list, [&](const auto& one) {
    return std::any_of(known.begin(), known.end(), [&](const auto& other) {
      return one.second.is_same(other.second);
    });
  });
  return list;
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

ModuleTensors::ModuleTensors(torch::nn::Module& module)
    : parameters(unique_parameters(module)), buffers(module) {
  const auto sparse = sparse_weights(module);
  for (const auto& [name, tensor] : parameters)
    if (tensor.requires_grad())
      trained.push_back(
          {name, tensor, sparse.count(tensor.unsafeGetTensorImpl()) > 0});
}

NamedTensors ModuleTensors::all() const {
  NamedTensors list = parameters;
  list.insert(list.end(), buffers.tensors().begin(), buffers.tensors().end());
  return list;
}

ModuleTensors share_tensors(const comm::Group& group, torch::nn::Module& module,
                            const ModuleTensors& known) {
  ModuleTensors now(module);
  check_same_shapes(group, now.all());
  // Buffers that are known already may differ between ranks by now; they are
  // not broadcast.
  broadcast_tensors(group, without(now.all(), known.all()));
  now.buffers.inherit(known.buffers);
  name_changes(now.parameters);
  return now;
}

void check_same_weights(const comm::Group& group, const ModuleTensors& tensors,
                        const std::vector<at::Tensor>& kept) {
  NamedTensors all = tensors.parameters;
  std::erase_if(all, [&](const auto& entry) {
    return std::any_of(kept.begin(), kept.end(), [&](const at::Tensor& one) {
      return one.is_same(entry.second);
    });
  });
  const NamedTensors buffers = tensors.buffers.shared(group);
  all.insert(all.end(), buffers.begin(), buffers.end());
  check_same_bits(group, all);
}

void check_not_empty(const std::vector<TrainedParameter>& trained) {
  SHEAF_CHECK(!trained.empty(),
              "no parameter of the module requires a gradient; a module "
              "without trained parameters needs no wrapper");
}

}  // namespace sheaf::parallel
