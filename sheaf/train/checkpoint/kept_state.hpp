#pragma once
// Restores the side effects of a forward pass.

#include <torch/nn/module.h>

#include <utility>
#include <vector>

namespace sheaf::train {

// Copies of a module's buffers, such as running statistics.
class KeptBuffers {
 public:
  explicit KeptBuffers(const torch::nn::Module& module);
  void put_back() const;

 private:
  // With copies of their values.
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;
};

// Saves buffers and the random number state of the CPU and of `device`; the
// destructor restores them.
class KeptState {
 public:
  KeptState(const torch::nn::Module& module, const torch::Device& device);
  ~KeptState();
  KeptState(const KeptState&) = delete;
  KeptState& operator=(const KeptState&) = delete;

 private:
  void keep(at::Generator generator);

  KeptBuffers buffers_;
  std::vector<std::pair<at::Generator, at::Tensor>> generators_;
};

}  // namespace sheaf::train
