#pragma once
// Records the operators of a forward pass and their data dependencies.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sheaf::tensor {

struct GraphNode {
  std::string op;     // "aten::conv2d"
  std::string layer;  // from the enclosing scope "sheaf::layer NAME …", or ""
  // For each input tensor, the node that created it or last wrote to its
  // memory; -1: no recorded node did.
  std::vector<std::int32_t> inputs;
  std::vector<std::vector<std::int64_t>> in;   // sizes of the inputs
  std::vector<std::vector<std::int64_t>> out;  // sizes of the outputs
  std::string type;                            // of the first output: "f32"
};

struct Statistics {
  std::int64_t elements = 0;
  double square = 0;   // sum of squares
  double largest = 0;  // largest absolute value

  void add(const at::Tensor& tensor);
};

// Statistics over all calls of a layer's matrix product or convolution.
struct LayerStatistics {
  std::string op;
  Statistics input;
  Statistics weight;  // in a product of two activations: the second factor
  Statistics output;
  Statistics output_gradient;
};

struct GraphRecorderOptions {
  // Also collects statistics of values, which costs time, and memory until
  // take_statistics().
  bool has_statistics = false;
};

// For its lifetime, records the outermost operators that this thread calls
// inside the scopes "sheaf::phase forward" and "sheaf::phase loss". At most one
// per thread; a second one is a UsageError.
class GraphRecorder {
 public:
  explicit GraphRecorder(const GraphRecorderOptions& options = {});
  ~GraphRecorder();
  GraphRecorder(const GraphRecorder&) = delete;
  GraphRecorder& operator=(const GraphRecorder&) = delete;

  const std::vector<GraphNode>& nodes() const;
  // Statistics by layer name. Gradients are included after backward().
  std::map<std::string, LayerStatistics> take_statistics();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sheaf::tensor
