#include "sheaf/train/config/config.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/halo/grid.hpp"
#include "sheaf/train/config/config_reader.hpp"

namespace sheaf::train {
namespace {

void read_into(RunConfig& config, const YAML::Node& node,
               const Source& source) {
  ConfigReader reader(node, "", source);
  visit(reader, config);
  reader.finish();
}

// Resets the section, or the arguments, with the key `path`. A section that is
// overridden as a whole starts from its defaults: the settings of one
// optimizer, for example, do not apply to another.
struct SectionReset {
  std::string_view path;
  std::string prefix = {};

  template <class Section>
  void section(std::string_view key, Section& section) {
    if (key == path) section = {};
    prefix = std::string(key) + ".";
    visit(*this, section);
    prefix.clear();
  }
  void arguments(std::string_view key, Arguments& arguments) const {
    if (prefix + std::string(key) == path) arguments.clear();
  }
  template <class... Rest>
  void field(const Rest&...) const {}
  template <class T>
  void choice(std::string_view, T&,
              std::initializer_list<std::string_view>) const {}
  template <class T>
  void choices(std::string_view, T&,
               std::initializer_list<std::string_view>) const {}
  template <class... Rest>
  void numbers(const Rest&...) const {}
  template <class... Rest>
  void items(const Rest&...) const {}
};

constexpr std::size_t kMostKeys = 8;  // joined by dots; three are in use

// Reads "a.b=1" as the document {a: {b: 1}}, like a config file.
void apply_override(RunConfig& config, const std::string& text) {
  const std::size_t equals = text.find('=');
  SHEAF_CHECK(equals != std::string::npos && equals > 0, "--set ",
              printable(text, 60),
              ": write key=value, such as --set optimizer.learning_rate=0.1");
  const Source source{"--set " + printable(text), false, &config.origins};
  YAML::Node node = parse_yaml(text.substr(equals + 1), source);
  const std::string_view path = trim(std::string_view(text).substr(0, equals));
  const auto keys = split(path, '.');
  SHEAF_CHECK(keys.size() <= kMostKeys, "--set ", printable(text, 60),
              ": the key has more than ", kMostKeys, " parts");
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    YAML::Node outer(YAML::NodeType::Map);
    outer[std::string(trim(*key))] = node;
    node.reset(outer);  // assignment would make the node contain itself
  }
  SectionReset reset{path};
  visit(reset, config);
  read_into(config, node, source);
}

// A truncated file or one of another type must not select the defaults.
void check_has_keys(const std::string& text, const std::string& name) {
  SHEAF_CHECK(!parse_yaml(text, {name, true, nullptr}).IsNull(), name,
              " is empty or has no keys; set at least one, such as "
              "epochs: 1, or write {} to use the defaults");
}

void check_network(const RunConfig& config) {
  const NetworkConfig& network = config.network;
  const bool is_list = network.name == "layers";
  SHEAF_CHECK(is_list == !network.layers.empty(), config.where("network"),
              "network.name is '", network.name, "' and network.layers has ",
              network.layers.size(),
              " entries; either name a network, or write name: layers and "
              "list the layers");
}

void check_optimizer(const RunConfig& config) {
  const OptimizerConfig& optimizer = config.optimizer;
  SHEAF_CHECK(!optimizer.nesterov || optimizer.momentum > 0,
              config.where("optimizer.nesterov"),
              "optimizer.nesterov requires momentum above 0, but it is ",
              optimizer.momentum,
              "; set optimizer.momentum, for example to 0.9");
  SHEAF_CHECK(optimizer.beta1 < 1 && optimizer.beta2 < 1,
              config.where("optimizer"), "optimizer.beta1 is ", optimizer.beta1,
              " and beta2 is ", optimizer.beta2, "; both must be below 1");
  SHEAF_CHECK(optimizer.name == "sgd" || optimizer.momentum == 0,
              config.where("optimizer.momentum"), optimizer.name,
              " has no momentum; use beta1, or name: sgd");
}

void check_strategy(const RunConfig& config) {
  const StrategyKind strategy = config.parallel.strategy;
  SHEAF_CHECK(
      strategy == StrategyKind::kData || config.parallel.compression == "none",
      config.where("parallel.compression"), "parallel.compression is ",
      config.parallel.compression,
      ", which requires strategy: data, but it is ", name_of(strategy),
      "; remove it, or see dad.wire and rank-dad");
  try {
    halo::Grid::parse(config.parallel.grid);
  } catch (const UsageError& error) {
    throw UsageError(config.where("parallel.grid") + error.what());
  }
  SHEAF_CHECK(
      splits_images(strategy) || config.parallel.grid == "1x1",
      config.where("parallel.grid"), "parallel.grid is ", config.parallel.grid,
      ", which requires strategy: spatial, but it is ", name_of(strategy));
  SHEAF_CHECK(config.dad.plan.empty() || strategy == StrategyKind::kAuto,
              config.where("dad.plan"), "dad.plan is ", config.dad.plan,
              ", which requires strategy: auto, but it is ", name_of(strategy),
              "; remove it, or see dad.routes");
  for (const auto& [name, argument] : config.dad.routes) {
    const std::string value =
        argument.values.empty() || argument.is_list ? "" : argument.values[0];
    SHEAF_CHECK(value == "gradient" || value == "dad" || value == "edad" ||
                    value == "rank-dad",
                config.where("dad.routes"), "dad.routes.", name, " is '", value,
                "'; use gradient, dad, edad or rank-dad");
  }
}

void check_plan_use(const RunConfig& config) {
  if (config.plan.empty()) return;
  SHEAF_CHECK(config.precision == "f32", config.where("precision"),
              "precision is ", config.precision, ", but the plan ", config.plan,
              " sets the precision of each layer; remove precision or plan");
  SHEAF_CHECK(!splits_images(config.parallel.strategy), config.where("plan"),
              "a plan cannot be used with strategy: spatial, whose layers all "
              "compute in one precision; remove plan, or set "
              "parallel.strategy=data");
}

// Kernels of different devices round differently, but dAD's routes and split
// images require the same bits on all ranks.
void check_devices(const RunConfig& config) {
  if (!config.has_unlike_devices()) return;
  SHEAF_CHECK(config.parallel.strategy == StrategyKind::kData,
              config.where("device"), "device is [", join(config.devices, ", "),
              "], but parallel.strategy ", name_of(config.parallel.strategy),
              " requires the same kind of device on all ranks; set "
              "parallel.strategy=data, or device=cpu or cuda");
  SHEAF_CHECK(config.check_weights_every == 0,
              config.where("check_weights_every"),
              "check_weights_every compares bits, but mixed devices round "
              "differently; remove it, or set device=cpu or cuda");
}

void check_shares(const RunConfig& config) {
  if (config.shares.size() == 1) return;
  SHEAF_CHECK(std::any_of(config.shares.begin(), config.shares.end(),
                          [](std::int64_t one) { return one > 0; }),
              config.where("shares"),
              "shares are all 0; at least one rank must take rows");
  SHEAF_CHECK(
      config.data.sites == "shared" && !splits_images(config.parallel.strategy),
      config.where("shares"),
      "shares cannot be combined with data.sites: by_class or "
      "strategy: spatial; remove them");
}

void check_values(const RunConfig& config) {
  check_shares(config);
  check_network(config);
  check_devices(config);
  check_optimizer(config);
  check_strategy(config);
  check_plan_use(config);
  SHEAF_CHECK(config.accumulate <= config.global_batch,
              config.where("accumulate"), "accumulate is ", config.accumulate,
              ", more than the ", config.global_batch,
              " rows of global_batch; reduce it");
  const auto total = static_cast<double>(config.epochs);
  SHEAF_CHECK(config.schedule.warmup_epochs <= total,
              config.where("schedule.warmup_epochs"),
              "schedule.warmup_epochs is ", config.schedule.warmup_epochs,
              ", more than the run's ", config.epochs, " epochs");
  SHEAF_CHECK(config.loss != "mse" || config.early_stopping.metric == "loss",
              config.where("early_stopping.metric"),
              "early_stopping.metric is ", config.early_stopping.metric,
              ", which requires classes, but the loss is mse; use "
              "metric: loss");
}

}  // namespace

std::string RunConfig::where(const std::string& key) const {
  for (std::string path = key; !path.empty();) {
    const auto origin = origins.find(path);
    if (origin != origins.end()) return origin->second;
    const std::size_t dot = path.rfind('.');
    path = dot == std::string::npos ? "" : path.substr(0, dot);
  }
  return "";
}

bool RunConfig::has_unlike_devices() const {
  return std::any_of(devices.begin(), devices.end(),
                     [&](const auto& one) { return one != devices[0]; });
}

void RunConfig::check_ranks(int ranks) const {
  const auto check = [&](const char* key, std::size_t entries) {
    SHEAF_CHECK(entries == 1 || entries == static_cast<std::size_t>(ranks),
                where(key), key, " lists ", entries, " ranks, but there are ",
                ranks, "; give one value for all, one for each rank, or -n ",
                entries);
  };
  check("device", devices.size());
  check("threads", threads.size());
  check("shares", shares.size());
}

RunConfig parse_config(const std::string& text, const std::string& name,
                       std::span<const std::string> overrides) {
  RunConfig config;
  const Source source{name, true, &config.origins};
  const YAML::Node node = parse_yaml(text, source);
  if (!node.IsNull()) read_into(config, node, source);
  for (const std::string& one : overrides) apply_override(config, one);
  if (!config.network.layers.empty() &&
      !config.origins.contains("network.name"))
    config.network.name = "layers";
  check_values(config);
  return config;
}

RunConfig read_config(const std::filesystem::path& file,
                      std::span<const std::string> overrides) {
  const std::string text = [&] {
    try {
      return read_file(file, kMostTextBytes);
    } catch (const IoError& error) {
      throw IoError(concat(error.what(),
                           "; give the path of a config, such as "
                           "examples/mlp.yaml"));
    }
  }();
  check_has_keys(text, file.string());
  return parse_config(text, file.string(), overrides);
}

StrategyKind parse_strategy(std::string_view name) {
  const auto* const found =
      std::find(kStrategyNames.begin(), kStrategyNames.end(), name);
  SHEAF_CHECK(found != kStrategyNames.end(), "'", name,
              "' is not a strategy; use one of ", join(kStrategyNames, ", "));
  return static_cast<StrategyKind>(found - kStrategyNames.begin());
}

}  // namespace sheaf::train
