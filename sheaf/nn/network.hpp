#pragma once
// Networks by name and arguments, or from a list of layers. docs/networks.md
// tells the names, the arguments and their defaults.

#include <torch/nn/module.h>
#include <torch/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sheaf::nn {

// What every network here is: one tensor in, one tensor out.
class Network : public torch::nn::Module {
 public:
  virtual at::Tensor forward(at::Tensor input) = 0;
};

struct LayerSpec {
  std::string type;
  std::map<std::string, std::string> arguments = {};
};

struct NetworkSpec {
  std::string name;  // "" with layers
  std::map<std::string, std::string> arguments = {};
  std::vector<LayerSpec> layers = {};
};

// The network on the CPU, with fresh weights from torch's generator, in
// training mode. Parameters are called as torchvision's (BERT: Hugging Face's)
// are, so that weights from Python load. UsageError for unknown names,
// arguments and values tells what is allowed and the nearest valid name.
std::shared_ptr<Network> make_network(const NetworkSpec& spec);

std::vector<std::string> network_names();
std::vector<std::string> layer_names();

// Every argument of a network with its default, to print a run description
// complete. UsageError for unknown names. Those of `layer_defaults` that say
// "required" or "inferred" have none.
std::map<std::string, std::string> network_defaults(const std::string& name);
std::map<std::string, std::string> layer_defaults(const std::string& type);

// How many numbers a module learns.
std::int64_t count_parameters(const torch::nn::Module& module);

}  // namespace sheaf::nn
