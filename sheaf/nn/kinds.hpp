#pragma once
// The predefined networks; each is implemented in a separate file.

#include <functional>
#include <string_view>
#include <vector>

#include "sheaf/nn/arguments.hpp"
#include "sheaf/nn/network.hpp"

namespace sheaf::nn {

struct NetworkKind {
  std::string_view name;
  std::vector<ArgumentSpec> arguments;
  std::function<std::shared_ptr<Network>(const Arguments&)> make;
};

NetworkKind lenet_kind();
NetworkKind mlp_kind();
NetworkKind convnet_kind();
NetworkKind gb_kind();
NetworkKind unet_kind();
std::vector<NetworkKind> resnet_kinds();
std::vector<NetworkKind> vgg_kinds();
NetworkKind bert_kind();

// Converts the weights of convolutions to channels-last memory format, which
// tensor cores prefer. The format is kept when the module moves to another
// device.
void use_channels_last(torch::nn::Module& module);

// A network from a list of layers. Its argument `input` is the shape of one
// sample, "1x28x28".
std::vector<ArgumentSpec> layered_arguments();
std::shared_ptr<Network> make_layered(const std::vector<LayerSpec>& layers,
                                      const Arguments& arguments);

}  // namespace sheaf::nn
