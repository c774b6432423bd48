#include "sheaf/parallel/precision/precision_names.hpp"

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/rnn.h>

#include <algorithm>

namespace sheaf::parallel {
namespace {

const void* memory_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl()
                              : nullptr;
}

bool looks_up(const torch::nn::Module& module) {
  return module.as<torch::nn::EmbeddingImpl>() ||
         module.as<torch::nn::EmbeddingBagImpl>();
}

bool is_recurrent(const torch::nn::Module& module) {
  return module.as<torch::nn::LSTMImpl>() || module.as<torch::nn::GRUImpl>() ||
         module.as<torch::nn::RNNImpl>() ||
         module.as<torch::nn::LSTMCellImpl>() ||
         module.as<torch::nn::GRUCellImpl>() ||
         module.as<torch::nn::RNNCellImpl>();
}

std::string layer_name(const std::string& prefix, const std::string& name) {
  if (name == "weight" && !prefix.empty()) return prefix;
  return prefix.empty() ? name : prefix + "." + name;
}

}  // namespace

LayerNames::LayerNames(const torch::nn::Module& module) {
  add(module, "");
  for (const auto& child : module.named_modules("", /*include_self=*/false))
    add(*child.value(), child.key());
  find_storages();
}

void LayerNames::add(const torch::nn::Module& module,
                     const std::string& prefix) {
  const bool is_layer = !looks_up(module) && !is_recurrent(module);
  for (const auto& entry : module.named_parameters(/*recurse=*/false))
    if (entry.value().defined())
      add(entry.value(), layer_name(prefix, entry.key()),
          is_layer && entry.value().dim() >= 2);
}

// A weight that one module uses as an embedding and another in a product gets
// the name from the latter.
void LayerNames::add(const at::Tensor& tensor, const std::string& layer,
                     bool is_layer) {
  const auto [found, is_new] =
      by_tensor_.emplace(tensor.unsafeGetTensorImpl(), weights_.size());
  if (is_new) {
    weights_.push_back({tensor, layer, is_layer});
    return;
  }
  Weight& weight = weights_[found->second];
  const bool is_better = is_layer && !weight.is_layer;
  aliases_[is_better ? weight.layer : layer] = is_better ? layer : weight.layer;
  if (is_better) weight = {tensor, layer, true};
}

std::vector<std::string> LayerNames::layers() const {
  std::vector<std::string> result;
  for (const Weight& weight : weights_)
    if (weight.is_layer) result.push_back(weight.layer);
  return result;
}

bool LayerNames::has(const std::string& layer) const {
  for (const Weight& weight : weights_)
    if (weight.layer == layer && weight.tensor.dim() >= 2) return true;
  return false;
}

std::string LayerNames::shared_with(const std::string& name) const {
  const auto found = aliases_.find(name);
  return found == aliases_.end() ? "" : found->second;
}

void LayerNames::find_storages() {
  by_storage_.clear();
  for (std::size_t i = 0; i < weights_.size(); ++i)
    if (weights_[i].tensor.dim() > 0)
      by_storage_.emplace(memory_of(weights_[i].tensor), i);
}

const std::string* LayerNames::find(const at::Tensor& tensor) const {
  if (!tensor.defined()) return nullptr;
  const auto same = by_tensor_.find(tensor.unsafeGetTensorImpl());
  if (same != by_tensor_.end()) return &weights_[same->second].layer;
  const void* memory = memory_of(tensor);
  if (!memory) return nullptr;
  const auto [begin, end] = by_storage_.equal_range(memory);
  for (auto it = begin; it != end; ++it) {
    // Several parameters may share a storage.
    const Weight& weight = weights_[it->second];
    const std::int64_t place =
        tensor.storage_offset() - weight.tensor.storage_offset();
    if (place >= 0 && place < std::max<std::int64_t>(1, weight.tensor.numel()))
      return &weight.layer;
  }
  return nullptr;
}

}  // namespace sheaf::parallel
