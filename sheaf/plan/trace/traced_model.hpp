#pragma once
// The model description that `sheaf trace` adds to the events: the operators of
// the forward pass with their inputs, the parameters, and layer statistics.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/plan/format/precision_plan.hpp"

namespace sheaf::plan {

using Shape = std::vector<std::int64_t>;
double elements_of(const Shape& shape);

// An outermost operator of the forward pass.
struct ModelNode {
  std::string op;                    // "aten::conv2d"
  std::string layer;                 // "": not part of a layer
  std::vector<std::int32_t> inputs;  // nodes; -1: from outside
  std::vector<Shape> in_shapes;
  std::vector<Shape> out_shapes;
  std::optional<Precision> type;  // of the first result, if floating-point
};

struct TensorStatistics {
  double elements = 0;
  double square = 0;   // sum of squares
  double largest = 0;  // largest absolute value
};

struct LayerStatistics {
  TensorStatistics input, weight, output, weight_gradient, output_gradient;
  double curvature = 0;  // trace of the Hessian of the loss
};

struct ModelParameter {
  std::string name;
  std::int64_t elements = 0;
  std::string layer;
};

struct TracedModel {
  std::string name;
  std::int64_t batch = 0;
  std::string device = "cpu";
  Precision precision = Precision::kF32;  // of all layers
  bool is_uniform = true;                 // false: the run used a plan
  std::vector<ModelParameter> parameters;
  std::int64_t optimizer_bytes = 0;
  std::vector<ModelNode> nodes;
  std::map<std::string, LayerStatistics> statistics;
  double busy_cores = 1;          // average, including loader threads
  int loader_workers = 1;         // 0: the step's thread makes batches itself
  std::int64_t bytes_before = 0;  // allocated at the start of a step
  std::map<std::string, std::int64_t> peak;  // by phase
};

// Throws an IoError that names the file and the missing or invalid member.
TracedModel parse_model(std::string_view json, const std::string& path);

}  // namespace sheaf::plan
