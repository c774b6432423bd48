#pragma once
// Products of parameters with inputs, seen while forward() computes them.
//
// For y = x W the gradient of W is the product of x and of the gradient of y,
// its *delta*. Both have as many rows as the batch, and are often smaller than
// W. Layers need not be rewritten: every operation passes the dispatcher,
// which reports inputs and outputs to observers (RecordFunction).

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <compare>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sheaf/parallel/dad/graph.hpp"

namespace sheaf::parallel {

// Which part of a parameter was a factor, as a matrix of in x out elements.
struct WeightView {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t in_stride = 0;
  std::int64_t out_stride = 0;
  std::int64_t offset = 0;
  // The input is numbers of rows, not rows: an embedding.
  bool is_lookup = false;
  auto operator<=>(const WeightView&) const = default;
};

// That part of a tensor like the parameter, as out x in.
at::Tensor part_of(const at::Tensor& like_parameter, const WeightView& view);

struct Product {
  std::size_t weight = 0;  // by its place among the parameters
  std::optional<std::size_t> bias;
  WeightView view;
  at::Tensor input;  // rows x in; of a lookup, numbers
  std::shared_ptr<torch::autograd::Node> node;
  std::shared_ptr<torch::autograd::Node> input_node;  // what made the input
  bool is_transposed = false;  // y = W x: the delta comes as out x rows
  // Of the node, to what made the weight, the bias and the input.
  std::size_t weight_edge = 0;
  std::size_t bias_edge = 0;
  std::size_t input_edge = 0;

  LayerNodes nodes() const {
    return {node, input_node, !is_transposed && !view.is_lookup};
  }
  // The delta as rows x out.
  at::Tensor delta(const at::Tensor& gradient) const;
};

// Reports every product of this thread between start() and stop().
class ProductWatch {
 public:
  using Handler = std::function<void(Product)>;

  ProductWatch(const std::vector<at::Tensor>& parameters, Handler on_product);
  ~ProductWatch() { stop(); }
  ProductWatch(const ProductWatch&) = delete;
  ProductWatch& operator=(const ProductWatch&) = delete;

  void start();
  void stop();

  // For the observer below the dispatcher.
  void see(const char* name, const std::vector<c10::IValue>& inputs,
           const at::Tensor& output);

 private:
  std::optional<std::size_t> find(const at::Tensor& tensor) const;
  std::optional<Product> matrix_product(const at::Tensor& left,
                                        const at::Tensor& right,
                                        std::size_t first_edge) const;
  void see_addmm(const std::vector<c10::IValue>& inputs, const at::Tensor& y);
  void see_embedding(const std::vector<c10::IValue>& inputs,
                     const at::Tensor& y);
  void tell(Product product, const at::Tensor& output);

  std::vector<at::Tensor> parameters_;
  std::unordered_multimap<const void*, std::size_t> by_storage_;
  Handler on_product_;
  std::optional<std::uint64_t> handle_;  // of the observer, while it is on
};

}  // namespace sheaf::parallel
