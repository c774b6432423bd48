#pragma once
// The key of a parameter in Optimizer::state(): its address, which old versions
// of libtorch store as text.

#include <torch/optim/optimizer.h>

#include <string>
#include <type_traits>

#include "sheaf/base/error.hpp"

namespace sheaf::nn {

using OptimizerKey = std::decay_t<
    decltype(std::declval<const torch::optim::Optimizer&>().state())>::key_type;

template <class Key = OptimizerKey>
Key optimizer_key(const at::Tensor& parameter) {
  auto* const address = parameter.unsafeGetTensorImpl();
  if constexpr (std::is_same_v<Key, std::string>)
    return concat(address);
  else
    return address;
}

}  // namespace sheaf::nn
