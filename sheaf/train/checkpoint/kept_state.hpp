#pragma once
// Puts back what a forward pass changes besides its results.

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
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;  // and their values
};

// From its constructor to its destructor: buffers, and the state of the random
// numbers of the CPU and of `device`.
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
