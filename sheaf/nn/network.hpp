#pragma once
// Creates networks by name and arguments, or from a list of layers.
// docs/reference/networks.md documents the names, arguments and defaults. Any
// thread may call these functions; networks themselves are not thread-safe.

#include <torch/nn/module.h>
#include <torch/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sheaf::nn {

// Base class of all networks: one input tensor, one output tensor.
class Network : public torch::nn::Module {
 public:
  virtual at::Tensor forward(at::Tensor input) = 0;
};

struct LayerSpec {
  std::string type;
  std::map<std::string, std::string> arguments = {};
};

struct NetworkSpec {
  std::string name;  // empty if `layers` is used
  std::map<std::string, std::string> arguments = {};
  std::vector<LayerSpec> layers = {};
};

// Creates the network on the CPU in training mode, with weights from torch's
// default random generator. Parameters have the names of torchvision (BERT: of
// Hugging Face), so that weights from Python can be loaded. Throws UsageError
// for unknown names, arguments and invalid values; the message lists the
// allowed values and the closest name.
std::shared_ptr<Network> make_network(const NetworkSpec& spec);

std::vector<std::string> network_names();
std::vector<std::string> layer_names();

// Every argument with its default, used to print a complete config. Throws
// UsageError for unknown names. The values "required" and "inferred" from
// `layer_defaults` mean that the argument has no default.
std::map<std::string, std::string> network_defaults(const std::string& name);
std::map<std::string, std::string> layer_defaults(const std::string& type);

// The number of elements of all parameters of a module.
std::int64_t count_parameters(const torch::nn::Module& module);

}  // namespace sheaf::nn
