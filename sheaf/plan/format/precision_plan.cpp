#include "sheaf/plan/format/precision_plan.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"

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
  throw UsageError(concat("unknown precision \"", text,
                          "\"; use f32, tf32, bf16, f16 or int8"));
}

std::string read_plan_text(const std::filesystem::path& name) {
  for (const auto& [precision, known] : kPrecisions)
    if (name == known)
      return concat("{\"precision\": {\"other\": \"", known,
                    "\", \"layers\": {}}}");
  return read_file(name.string());
}

PrecisionPlan parse_precision_plan(const std::string& text,
                                   const std::string& name,
                                   const std::string& device) {
  PrecisionPlan plan;
  try {
    const auto json = nlohmann::json::parse(text);
    nlohmann::json precision = json.at("precision");
    for (const auto& one : json.value("devices", nlohmann::json::array()))
      if (!device.empty() && one.at("device") == device)
        precision = one.at("precision");
    plan.other = parse_precision(precision.value("other", "f32"));
    for (const auto& [layer, one] : precision.at("layers").items())
      plan.layers[layer] = parse_precision(one.get<std::string>());
  } catch (const nlohmann::json::exception& error) {
    throw IoError(concat(name, " is not a plan: ", error.what()));
  } catch (const UsageError& error) {
    throw IoError(concat(name, ": ", error.what()));
  }
  return plan;
}

PrecisionPlan read_precision_plan(const std::filesystem::path& name,
                                  const std::string& device) {
  return parse_precision_plan(read_plan_text(name), name.string(), device);
}

}  // namespace sheaf::plan
