#pragma once
// The layers that networks are listed of.

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "sheaf/nn/arguments.hpp"

namespace sheaf::nn {

// The shape of one sample, without the batch, as far as it is known.
using SampleShape = std::optional<std::vector<std::int64_t>>;

struct Layer {
  std::shared_ptr<torch::nn::Module> module;  // null: it has no state
  std::function<at::Tensor(const at::Tensor&)> forward;
};

struct LayerKind {
  std::string_view name;
  std::vector<ArgumentSpec> arguments;
  // `input` is the shape of what comes in.
  std::function<Layer(const Arguments&, const SampleShape& input)> make;
};

// The kinds by what they do, each in a file of its own.
std::vector<LayerKind> weighted_layers();
std::vector<LayerKind> norm_layers();
std::vector<LayerKind> plain_layers();

// The argument if it was given, else the length of axis `axis` of a sample
// (negative: from the end). UsageError tells to give the one or the other.
std::int64_t inferred_size(const Arguments& arguments, std::string_view name,
                           const SampleShape& input, std::int64_t axis);

// A Layer out of a module holder of torch's.
template <class Holder>
Layer layer_of(Holder module) {
  return {module.ptr(),
          [module](const at::Tensor& x) mutable { return module(x); }};
}

}  // namespace sheaf::nn
