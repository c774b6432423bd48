#include "sheaf/plan/precision_plan.hpp"

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "sheaf/base/error.hpp"

namespace sheaf::plan {
namespace {

constexpr std::array<std::pair<Precision, const char*>, 5> kPrecisions = {
    {{Precision::kF32, "f32"},
     {Precision::kTf32, "tf32"},
     {Precision::kBf16, "bf16"},
     {Precision::kF16, "f16"},
     {Precision::kInt8, "int8"}}};

}  // namespace

const char* to_string(Precision precision) {
  for (const auto& [one, name] : kPrecisions)
    if (one == precision) return name;
  return "?";
}

Precision parse_precision(const std::string& text) {
  for (const auto& [one, name] : kPrecisions)
    if (text == name) return one;
  throw UsageError(concat("there is no precision \"", text,
                          "\"; there are f32, tf32, bf16, f16 and int8"));
}

PrecisionPlan read_precision_plan(const std::filesystem::path& path,
                                  const std::string& device) {
  std::ifstream file(path);
  if (!file) throw IoError(concat("cannot read the plan ", path.string()));
  PrecisionPlan plan;
  try {
    const auto json = nlohmann::json::parse(file);
    nlohmann::json precision = json.at("precision");
    for (const auto& one : json.value("devices", nlohmann::json::array()))
      if (!device.empty() && one.at("device") == device)
        precision = one.at("precision");
    plan.other = parse_precision(precision.value("other", "f32"));
    for (const auto& [layer, one] : precision.at("layers").items())
      plan.layers[layer] = parse_precision(one.get<std::string>());
  } catch (const nlohmann::json::exception& error) {
    throw IoError(concat(path.string(), " is no plan: ", error.what()));
  } catch (const UsageError& error) {
    throw IoError(concat(path.string(), ": ", error.what()));
  }
  return plan;
}

}  // namespace sheaf::plan
