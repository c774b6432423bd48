#pragma once
// Where the first number that is not finite comes from, in a pass that is made
// again for this purpose.
//
// The dispatcher reports each operator that forward() calls, with its inputs
// and outputs (RecordFunction). From a result that is not finite the search
// goes back from operator to operator over inputs that are not finite, and ends
// at one whose inputs all are. (An infinity that does not reach the result, as
// of a mask before softmax, is no fault.) In the backward pass each node of the
// graph is looked at: the first one that turns gradients that are finite into
// others belongs to the operator that made it.

#include <torch/csrc/autograd/function.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/precision/precision_names.hpp"

namespace sheaf::train {

// A step's loss, gradients or weights are not finite, and the run is to stop.
class NonFiniteError : public CheckError {
 public:
  using CheckError::CheckError;
};

// One at a time in a thread.
class NonFiniteSearch {
 public:
  // Begins to listen to the operators that this thread calls; they must be
  // those of `module`, whose parameters give layers their names.
  explicit NonFiniteSearch(const torch::nn::Module& module);
  ~NonFiniteSearch();
  NonFiniteSearch(const NonFiniteSearch&) = delete;
  NonFiniteSearch& operator=(const NonFiniteSearch&) = delete;

  // "the output of layer 'fc1' (aten::addmm)", "the output of aten::exp after
  // layer 'fc1'"; empty where `result` is finite. Ends the listening.
  std::string find_in_forward(const at::Tensor& result);
  // The same of gradients: "the gradient of layer 'fc1' (aten::addmm)". Where
  // operators exchange something in backward(), all ranks call it.
  std::string find_in_backward(const at::Tensor& loss);

  // For the observer below the dispatcher.
  struct Value {
    at::Tensor tensor;
    bool is_finite = true;
  };
  struct Operator {
    std::string name;
    std::string layer;  // whose parameter it uses; empty: none
    std::string after;  // the last layer before it
    std::vector<Value> inputs;
    std::vector<Value> outputs;
  };
  Operator begin(const char* name, const std::vector<at::Tensor>& inputs);
  void end(Operator done, const std::vector<at::Tensor>& outputs);
  void enter_layer(const std::string& layer) { named_layer_ = layer; }

 private:
  void stop();
  // The operator before the i-th that gave the tensor.
  std::optional<std::size_t> source_of(const at::Tensor& tensor,
                                       std::size_t before) const;
  void claim_nodes(const at::Tensor& output, std::size_t owner);
  static std::string text_of(const char* what, const Operator& one);

  const parallel::LayerNames names_;
  std::optional<std::uint64_t> handle_;
  std::vector<Operator> operators_;
  // By node of the graph, the operator that made it.
  std::unordered_map<torch::autograd::Node*, std::size_t> owners_;
  std::string named_layer_;  // by a plan's scope
  std::string last_layer_;
};

}  // namespace sheaf::train
