#pragma once
// What `sheaf trace` tells of the model beside events: the operators of its
// forward pass with what they take from each other, its parameters, and
// statistics of its layers.

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
  std::string layer;                 // "": of none
  std::vector<std::int32_t> inputs;  // nodes; -1: from outside
  std::vector<Shape> in_shapes;
  std::vector<Shape> out_shapes;
  std::optional<Precision> type;  // of the first result, if it is a float
};

struct TensorStatistics {
  double elements = 0;
  double square = 0;   // the sum of squares
  double largest = 0;  // the largest absolute value
};

struct LayerStatistics {
  TensorStatistics input, weight, output, weight_gradient, output_gradient;
  double curvature = 0;  // the trace of the loss's second derivatives
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
  bool is_uniform = true;                 // else a plan was run
  std::vector<ModelParameter> parameters;
  std::int64_t optimizer_bytes = 0;
  std::vector<ModelNode> nodes;
  std::map<std::string, LayerStatistics> statistics;
  double busy_cores = 1;          // on average, those that load data included
  int loader_workers = 1;         // 0: the step's thread makes batches itself
  std::int64_t bytes_before = 0;  // allocated when a step begins
  std::map<std::string, std::int64_t> peak;  // by phase
};

// IoError names the file, and what is missing or of a wrong kind.
TracedModel parse_model(std::string_view json, const std::string& path);

}  // namespace sheaf::plan
