#pragma once
// Which layer a tensor is the weight of.

#include <torch/nn/module.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace sheaf::parallel {

class LayerNames {
 public:
  explicit LayerNames(const torch::nn::Module& module);

  // Those that parameters make; see layers_of().
  std::vector<std::string> layers() const;
  // Whether a plan may name it: also weights that are usually looked up, not
  // multiplied.
  bool has(const std::string& layer) const;
  // The layer whose weight is called `name` by another module; or "".
  std::string shared_with(const std::string& name) const;

  // Finds views of parameters; to be called when they may have got other
  // memory.
  void find_storages();
  // For a parameter or a view of one, its layer's name; nullptr for others.
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
