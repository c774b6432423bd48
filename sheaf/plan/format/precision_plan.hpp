#pragma once
// In which precision each layer of a model computes: plain data that the
// planner writes and a run reads.

#include <filesystem>
#include <map>
#include <string>

namespace sheaf::plan {

enum class Precision { kF32, kTf32, kBf16, kF16, kInt8 };

// "f32", "tf32", "bf16", "f16", "int8".
const char* to_string(Precision precision);
// UsageError, with what is allowed, for another text.
Precision parse_precision(const std::string& text);

struct PrecisionPlan {
  // A layer is named by its weight: "layer1.0.conv2" has
  // "layer1.0.conv2.weight", a weight of another name has its full name.
  // Products of two activations are "matmul#0", "matmul#1", … in the order of
  // the forward pass, by operator.
  std::map<std::string, Precision> layers;
  Precision other = Precision::kF32;  // of layers that are not named

  Precision of(const std::string& layer) const {
    const auto found = layers.find(layer);
    return found == layers.end() ? other : found->second;
  }
};

// The precisions of a plan.json: {"precision": {"other": "f32", "layers":
// {"conv1": "bf16", …}}, "devices": [{"device": NAME, "precision": …}, …]};
// those of the device of this name if there are, and what else the file holds
// is left alone. IoError with the file's name for one that is damaged or no
// plan. `name` instead of a file may be a precision: that of all layers.
PrecisionPlan read_precision_plan(const std::filesystem::path& name,
                                  const std::string& device = "");
// The same in two steps, for those who read it for others.
std::string read_plan_text(const std::filesystem::path& name);
PrecisionPlan parse_precision_plan(const std::string& text,
                                   const std::string& name,
                                   const std::string& device = "");

}  // namespace sheaf::plan
