#pragma once
// The layer types for networks defined as a list of layers.

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "sheaf/nn/arguments.hpp"

namespace sheaf::nn {

// The shape of one sample, without the batch axis; nullopt: unknown.
using SampleShape = std::optional<std::vector<std::int64_t>>;

struct Layer {
  std::shared_ptr<torch::nn::Module> module;  // null: the layer has no state
  std::function<at::Tensor(const at::Tensor&)> forward;
};

struct LayerKind {
  std::string_view name;
  std::vector<ArgumentSpec> arguments;
  // `input` is the shape of an input sample.
  std::function<Layer(const Arguments&, const SampleShape& input)> make;
};

// The layer types by category; each category is in a separate file.
std::vector<LayerKind> weighted_layers();
std::vector<LayerKind> norm_layers();
std::vector<LayerKind> plain_layers();

// The argument if given, otherwise the size of axis `axis` of a sample
// (negative: counted from the end). Throws UsageError if neither the argument
// nor the sample shape is given.
std::int64_t inferred_size(const Arguments& arguments, std::string_view name,
                           const SampleShape& input, std::int64_t axis);

// Wraps a torch module holder as a Layer.
template <class Holder>
Layer layer_of(Holder module) {
  return {module.ptr(),
          [module](const at::Tensor& x) mutable { return module(x); }};
}

}  // namespace sheaf::nn
