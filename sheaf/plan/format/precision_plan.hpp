#pragma once
// The precision plan: the precision in which each layer of a model computes.
// Plain data that the planner writes and a run reads.

#include <filesystem>
#include <map>
#include <string>

namespace sheaf {
struct JsonSource;
}

namespace sheaf::plan {

enum class Precision { kF32, kTf32, kBf16, kF16, kInt8 };

// "f32", "tf32", "bf16", "f16", "int8".
const char* to_string(Precision precision);
// Throws UsageError, with the valid names, for any other text.
Precision parse_precision(const std::string& text);

struct PrecisionPlan {
  // A layer is named after its weight: "layer1.0.conv2" has the weight
  // "layer1.0.conv2.weight"; a weight of another name is its own layer name.
  // Products of two activations are "matmul#0", "matmul#1", … by operator, in
  // the order of the forward pass.
  std::map<std::string, Precision> layers;
  Precision other = Precision::kF32;  // layers that are not named

  Precision of(const std::string& layer) const {
    const auto found = layers.find(layer);
    return found == layers.end() ? other : found->second;
  }
};

// Reads the precisions of a plan.json: {"precision": {"other": "f32", "layers":
// {"conv1": "bf16", …}}, "devices": [{"device": NAME, "precision": …}, …]}. If
// `device` is among the devices, its precisions are used; other members of the
// file are ignored. `name` may also be a precision, which then applies to all
// layers. Throws an IoError with the file's name if it is damaged or not a
// plan.
PrecisionPlan read_precision_plan(const std::filesystem::path& name,
                                  const std::string& device = "");
// read_precision_plan() in two steps, for a rank that reads the file for
// others.
std::string read_plan_text(const std::filesystem::path& name);
PrecisionPlan parse_precision_plan(const std::string& text,
                                   const std::string& name,
                                   const std::string& device = "");

// For errors about the plan.json `name`, in all of its readers.
JsonSource plan_source(const std::string& name);

}  // namespace sheaf::plan
