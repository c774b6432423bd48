#include "sheaf/plan/format/precision_plan.hpp"

#include <array>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/json_file.hpp"
#include "sheaf/base/text.hpp"

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
  return read_file(name.string(), kMostTextBytes);
}

namespace {

Precision precision_of(const JsonValue& value) {
  const std::string text = value.text();
  for (const auto& [one, name] : kPrecisions)
    if (text == name) return one;
  value.fail(concat("is \"", printable(text, 40),
                    "\"; use f32, tf32, bf16, f16 or int8"));
}

// The precisions of the device, if it is listed, or those of the whole file.
JsonValue precisions_for(const JsonValue& root, const std::string& device) {
  JsonValue found = root.at("precision");
  if (device.empty()) return found;
  if (const auto devices = root.find("devices"))
    for (const JsonValue& one : devices->items())
      if (one.at("device").text() == device) found = one.at("precision");
  return found;
}

}  // namespace

PrecisionPlan parse_precision_plan(const std::string& text,
                                   const std::string& name,
                                   const std::string& device) {
  const JsonSource source = plan_source(name);
  const nlohmann::json json = parse_json(text, source);
  const JsonValue precisions = precisions_for(JsonValue(json, source), device);
  PrecisionPlan plan;
  if (const auto other = precisions.find("other"))
    plan.other = precision_of(*other);
  for (const auto& [layer, one] : precisions.at("layers").members())
    plan.layers[layer] = precision_of(one);
  return plan;
}

PrecisionPlan read_precision_plan(const std::filesystem::path& name,
                                  const std::string& device) {
  return parse_precision_plan(read_plan_text(name), name.string(), device);
}

JsonSource plan_source(const std::string& name) {
  return {name, "the file is not a plan, or damaged; write it with sheaf plan"};
}

}  // namespace sheaf::plan
