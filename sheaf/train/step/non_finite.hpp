#pragma once
// Finds the origin of the first non-finite number in a pass that is repeated
// for this purpose.
//
// The dispatcher reports each operator that forward() calls, with its inputs
// and outputs (RecordFunction). Starting from a non-finite result, the search
// follows non-finite inputs back from operator to operator until it reaches one
// whose inputs are all finite. (An infinity that does not reach the result,
// such as in a mask before softmax, is not an error.) In the backward pass each
// node of the graph is checked: the first one that turns finite gradients into
// non-finite ones belongs to the operator that created it.

#include <torch/csrc/autograd/function.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/precision/loss_scale.hpp"
#include "sheaf/parallel/precision/precision_names.hpp"
#include "sheaf/train/step/finite.hpp"
#include "sheaf/train/step/loss.hpp"

namespace sheaf::train {

// Thrown to stop a run whose loss, gradients or weights are not finite.
class NonFiniteError : public CheckError {
 public:
  using CheckError::CheckError;
};

// At most one per thread at a time.
class NonFiniteSearch {
 public:
  // Starts observing the operators that this thread calls; they must belong to
  // `module`, whose parameter names identify layers.
  explicit NonFiniteSearch(const torch::nn::Module& module);
  ~NonFiniteSearch();
  NonFiniteSearch(const NonFiniteSearch&) = delete;
  NonFiniteSearch& operator=(const NonFiniteSearch&) = delete;

  // Returns "the output of layer 'fc1' (aten::addmm)" or "the output of
  // aten::exp after layer 'fc1'"; empty if `result` is finite. Stops observing.
  std::string find_in_forward(const at::Tensor& result);
  // Same for gradients: "the gradient of layer 'fc1' (aten::addmm)". If
  // operators communicate in backward(), all ranks must call it.
  std::string find_in_backward(const at::Tensor& loss);

  // Interface for the RecordFunction callbacks.
  struct Value {
    at::Tensor tensor;
    bool is_finite = true;
  };
  struct Operator {
    std::string name;
    std::string layer;  // layer whose parameter it uses; empty: none
    std::string after;  // last layer before it
    std::vector<Value> inputs;
    std::vector<Value> outputs;
  };
  Operator begin(const char* name, const std::vector<at::Tensor>& inputs);
  void end(Operator done, const std::vector<at::Tensor>& outputs);
  void enter_layer(const std::string& layer) { named_layer_ = layer; }

 private:
  void stop();
  // The last operator before index `before` that produced the tensor.
  std::optional<std::size_t> source_of(const at::Tensor& tensor,
                                       std::size_t before) const;
  void claim_nodes(const at::Tensor& output, std::size_t owner);
  static std::string text_of(const char* what, const Operator& one);

  const parallel::LayerNames names_;
  std::optional<std::uint64_t> handle_;
  std::vector<Operator> operators_;
  // The operator that created each graph node.
  std::unordered_map<torch::autograd::Node*, std::size_t> owners_;
  std::string named_layer_;  // from a plan's scope
  std::string last_layer_;
};

struct StepSearchOptions {
  std::uint64_t seed = 0;  // of the step's random numbers
  // Null: the loss is not scaled.
  const parallel::LossScale* scale = nullptr;
  // Ranks without rows run the passes as well, because layers exchange data.
  bool runs_empty_pieces = false;
};

// Repeats the passes without exchanging gradients and reports the first
// non-finite value on this rank, such as "the output of layer 'fc1'
// (aten::addmm)". Changes no state. All ranks must call it.
NonFiniteCause find_non_finite_value(const LossPath& path,
                                     const data::Batch& batch,
                                     const StepSearchOptions& options);

}  // namespace sheaf::train
