#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/cli/plan/plan_files.hpp"
#include "sheaf/formats/texts/yaml_text.hpp"

namespace sheaf::cli {
namespace {

constexpr const char* kDeviceShape =
    "expected name: Tesla T4, tflops: {f32: 8.1, f16: 65}, memory_gbs: 320 "
    "and optionally memory: 15G, launch_us: 4, host_time: 1.2";

class DeviceReader {
 public:
  explicit DeviceReader(const std::string& path) : path_(path) {}

  plan::DeviceProfile read(const YAML::Node& root) {
    check(root.IsMap(), root, "this is not a device description");
    for (const auto& entry : root) read_entry(entry.first, entry.second);
    check(!device_.name.empty(), root, "the device has no name");
    check(!device_.tflops.empty(), root, "the device has no tflops");
    check(device_.memory_gbs > 0, root, "the device has no memory_gbs");
    return device_;
  }

 private:
  void check(bool holds, const YAML::Node& at, const std::string& what) const {
    SHEAF_CHECK(holds, path_, ", line ", std::max(at.Mark().line, 0) + 1, ": ",
                what, "; ", kDeviceShape);
  }
  double positive(const YAML::Node& node) const {
    const auto number = node.as<double>();
    check(number > 0 && std::isfinite(number), node,
          "the value must be a number greater than 0");
    return number;
  }
  template <class Parse>
  auto read_as(const YAML::Node& node, Parse parse) const {
    try {
      return parse(node.as<std::string>());
    } catch (const UsageError& error) {
      check(false, node, error.what());
      throw;
    }
  }
  void read_entry(const YAML::Node& key, const YAML::Node& value) {
    const auto name = key.as<std::string>();
    if (name == "name")
      device_.name = value.as<std::string>();
    else if (name == "tflops")
      read_rates(value);
    else if (name == "memory_gbs")
      device_.memory_gbs = positive(value);
    else if (name == "memory")
      device_.memory_bytes = static_cast<std::int64_t>(read_as(
          value, [](const std::string& text) { return parse_bytes(text); }));
    else if (name == "launch_us")
      device_.launch_us = positive(value);
    else if (name == "host_time")
      device_.host_time = positive(value);
    else
      check(false, key, "unknown key " + printable(name, 60));
  }
  void read_rates(const YAML::Node& rates) {
    check(rates.IsMap(), rates,
          "tflops must be a mapping of precisions to numbers");
    for (const auto& entry : rates)
      device_.tflops[read_as(entry.first, plan::parse_precision)] =
          positive(entry.second);
  }

  const std::string& path_;
  plan::DeviceProfile device_;
};

}  // namespace

plan::DeviceProfile read_device(const std::string& path) {
  return parse_device(read_file(path, kMostTextBytes), path);
}

plan::DeviceProfile parse_device(const std::string& text,
                                 const std::string& path) {
  try {
    return DeviceReader(path).read(formats::parse_yaml(text, {.name = path}));
  } catch (const YAML::Exception& error) {
    throw UsageError(concat(path, ", line ", error.mark.line + 1, ": ",
                            error.msg, "; ", kDeviceShape));
  }
}

}  // namespace sheaf::cli
