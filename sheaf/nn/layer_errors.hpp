#pragma once
// Readable errors for a network whose layers do not fit its input.

#include <memory>
#include <optional>
#include <vector>

#include "sheaf/nn/network.hpp"

namespace sheaf::nn {

// Runs a network. If libtorch rejects the arguments of an operator, throws a
// one-line UsageError with the layer, its configuration and the shape of its
// input. Layers are observed only for the first batch of a new sample shape;
// other calls have no overhead.
class LayerErrors {
 public:
  explicit LayerErrors(std::shared_ptr<Network> network);
  at::Tensor forward(const at::Tensor& input);

 private:
  at::Tensor watched_forward(const at::Tensor& input);

  std::shared_ptr<Network> network_;
  // Sample shape of the last accepted input.
  std::optional<std::vector<std::int64_t>> sample_shape_;
};

}  // namespace sheaf::nn
