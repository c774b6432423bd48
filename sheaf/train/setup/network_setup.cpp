#include "sheaf/train/setup/network_setup.hpp"

#include <torch/cuda.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/nn/layer_errors.hpp"
#include "sheaf/nn/network.hpp"
#include "sheaf/train/files/from_root.hpp"

namespace sheaf::train {
namespace {

std::string text_of(const Argument& argument) {
  if (!argument.is_list) return argument.values.at(0);
  return "[" + join(argument.values, ", ") + "]";
}

std::map<std::string, std::string> texts_of(const Arguments& arguments) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, argument] : arguments)
    texts.emplace(name, text_of(argument));
  return texts;
}

nn::NetworkSpec spec_of(const NetworkConfig& network) {
  nn::NetworkSpec spec;
  if (network.name != "layers") spec.name = network.name;
  spec.arguments = texts_of(network.arguments);
  for (const Item& item : network.layers)
    spec.layers.push_back({item.name, texts_of(item.arguments)});
  return spec;
}

// Prefixes UsageErrors with the place in the config that specifies the network.
template <class Body>
auto with_place(const RunConfig& config, const Body& body) {
  try {
    return body();
  } catch (const UsageError& error) {
    throw UsageError(config.where("network") + error.what());
  }
}

}  // namespace

Model make_model(const RunConfig& config) {
  return with_place(config, [&] {
    torch::manual_seed(static_cast<std::uint64_t>(config.seed));
    const auto network = nn::make_network(spec_of(config.network));
    const auto named = std::make_shared<nn::LayerErrors>(network);
    return Model{network, [named](const torch::Tensor& input) {
                   return named->forward(input);
                 }};
  });
}

RunConfig complete(const RunConfig& config) {
  RunConfig result = config;
  if (config.network.name == "layers") return result;
  const auto defaults = with_place(
      config, [&] { return nn::network_defaults(config.network.name); });
  // Arguments that the config sets are kept.
  for (const auto& [name, value] : defaults)
    result.network.arguments.try_emplace(name, Argument{{value}, false});
  return result;
}

namespace {

void check_cuda(const RunConfig& config, const comm::Group& group) {
  SHEAF_CHECK(torch::cuda::is_available(), config.where("device"),
              "device is cuda for rank ", group.rank(), ", but ",
              group.host_name(),
              " has no GPU that libtorch can use; set device=cpu, or a list "
              "with one device for each rank");
}

}  // namespace

torch::Device device_of_rank(const RunConfig& config,
                             const comm::Group& group) {
  from_root(group, [&] {
    config.check_ranks(group.size());
    if (config.device_of(0) == "cuda") check_cuda(config, group);
    return std::string();
  });
  const bool is_cuda = config.device_of(group.rank()) == "cuda";
  const auto ranks = from_all(group, 2, [&] {
    if (is_cuda) check_cuda(config, group);
    return std::vector<std::int64_t>{group.host_index(), is_cuda};
  });
  if (!is_cuda) return torch::kCPU;
  const auto end = ranks.begin() + group.rank();
  const auto before = std::count(ranks.begin(), end,
                                 ranks[static_cast<std::size_t>(group.rank())]);
  const auto count = static_cast<long>(torch::cuda::device_count());
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(before % count)};
}

}  // namespace sheaf::train
