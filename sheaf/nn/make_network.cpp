#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/nn/kinds.hpp"
#include "sheaf/nn/network.hpp"

namespace sheaf::nn {
namespace {

std::vector<NetworkKind> make_kinds() {
  std::vector<NetworkKind> kinds{lenet_kind(), mlp_kind(), convnet_kind(),
                                 gb_kind(), unet_kind()};
  for (auto& more : {resnet_kinds(), vgg_kinds()})
    kinds.insert(kinds.end(), more.begin(), more.end());
  kinds.push_back(bert_kind());
  return kinds;
}

const std::vector<NetworkKind>& all_kinds() {
  static const std::vector<NetworkKind> kinds = make_kinds();
  return kinds;
}

const NetworkKind& kind_of(const std::string& name) {
  std::vector<std::string_view> names;
  for (const NetworkKind& kind : all_kinds()) {
    if (kind.name == name) return kind;
    names.push_back(kind.name);
  }
  throw UsageError(
      concat("unknown network '", name, "'", did_you_mean(name, names),
             "; allowed: ", join(names, ", "), ", or a list of layers"));
}

}  // namespace

std::shared_ptr<Network> make_network(const NetworkSpec& spec) {
  if (!spec.layers.empty()) {
    SHEAF_CHECK(spec.name.empty(), "the network has both the name '", spec.name,
                "' and a list of ", spec.layers.size(),
                " layers; give a name or layers");
    return make_layered(
        spec.layers,
        Arguments("a network of layers", layered_arguments(), spec.arguments));
  }
  SHEAF_CHECK(!spec.name.empty(),
              "a network needs a name or a list of layers; names are ",
              join(network_names(), ", "));
  const NetworkKind& kind = kind_of(spec.name);
  return kind.make(Arguments(concat("network '", spec.name, "'"),
                             kind.arguments, spec.arguments));
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const NetworkKind& kind : all_kinds()) names.emplace_back(kind.name);
  return names;
}

std::map<std::string, std::string> network_defaults(const std::string& name) {
  std::map<std::string, std::string> defaults;
  for (const ArgumentSpec& spec : kind_of(name).arguments)
    defaults.emplace(spec.name, spec.fallback);
  return defaults;
}

std::int64_t count_parameters(const torch::nn::Module& module) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : module.parameters())
    count += parameter.numel();
  return count;
}

void use_channels_last(torch::nn::Module& module) {
  for (at::Tensor& parameter : module.parameters())
    if (parameter.dim() == 4)
      parameter.set_data(
          parameter.detach().contiguous(at::MemoryFormat::ChannelsLast));
}

}  // namespace sheaf::nn
