#pragma once
// The operators of a forward pass, and which of them makes what another takes.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sheaf::tensor {

struct GraphNode {
  std::string op;     // "aten::conv2d"
  std::string layer;  // of the scope "sheaf::layer NAME …" around it, or ""
  // For each tensor that it takes the node that has made it or was the last to
  // write into its memory; -1: none, it is from outside.
  std::vector<std::int32_t> inputs;
  std::vector<std::vector<std::int64_t>> in;   // their sizes
  std::vector<std::vector<std::int64_t>> out;  // of what it gives
  std::string type;                            // "f32", of what it gives
};

struct Statistics {
  std::int64_t elements = 0;
  double square = 0;   // the sum of squares
  double largest = 0;  // by amount

  void add(const at::Tensor& tensor);
};

// Of all calls of a layer's product.
struct LayerStatistics {
  std::string op;
  Statistics input;
  Statistics weight;  // of products of activations the second factor
  Statistics output;
  Statistics output_gradient;
};

struct GraphRecorderOptions {
  // Looks at values, too, which takes time and memory until take_statistics().
  bool has_statistics = false;
};

// While it lives, notes the operators that this thread calls inside scopes
// "sheaf::phase forward" and "sheaf::phase loss", those left out that other
// operators call. One at a time on a thread.
class GraphRecorder {
 public:
  explicit GraphRecorder(const GraphRecorderOptions& options = {});
  ~GraphRecorder();
  GraphRecorder(const GraphRecorder&) = delete;
  GraphRecorder& operator=(const GraphRecorder&) = delete;

  const std::vector<GraphNode>& nodes() const;
  // By layer. Gradients are there after backward().
  std::map<std::string, LayerStatistics> take_statistics();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sheaf::tensor
