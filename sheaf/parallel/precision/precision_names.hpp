#pragma once
// Maps tensors to the layers whose weights they are.

#include <torch/nn/module.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace sheaf::parallel {

class LayerNames {
 public:
  explicit LayerNames(const torch::nn::Module& module);

  // See layers_of().
  std::vector<std::string> layers() const;
  // Whether a plan may contain this layer; includes weights of embeddings.
  bool has(const std::string& layer) const;
  // The layer whose weight another module calls `name`; "" if there is none.
  std::string shared_with(const std::string& name) const;

  // Updates the storages used to recognize views of parameters; must be called
  // when parameters may have moved.
  void find_storages();
  // The layer of a parameter or a view of one; nullptr for other tensors.
  const std::string* find(const at::Tensor& tensor) const;

 private:
  struct Weight {
    at::Tensor tensor;
    std::string layer;
    bool is_layer = false;
  };

  void add(const torch::nn::Module& module, const std::string& prefix);
  void add(const at::Tensor& tensor, const std::string& layer, bool is_layer);

  std::vector<Weight> weights_;
  std::unordered_map<const void*, std::size_t> by_tensor_;
  std::unordered_multimap<const void*, std::size_t> by_storage_;
  std::unordered_map<std::string, std::string> aliases_;
};

}  // namespace sheaf::parallel
