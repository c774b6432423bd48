#pragma once
// Errors of a network that does not fit its data.

#include <memory>
#include <optional>
#include <vector>

#include "sheaf/nn/network.hpp"

namespace sheaf::nn {

// Runs a network. Where libtorch refuses an operator because of its arguments,
// UsageError says in one line which layer it is, what it is made for and what
// came to it. The layers are watched when samples of a new shape come, so that
// other calls cost nothing.
class LayerErrors {
 public:
  explicit LayerErrors(std::shared_ptr<Network> network);
  at::Tensor forward(const at::Tensor& input);

 private:
  at::Tensor watched_forward(const at::Tensor& input);

  std::shared_ptr<Network> network_;
  // Of the last input that fit.
  std::optional<std::vector<std::int64_t>> sample_shape_;
};

}  // namespace sheaf::nn
