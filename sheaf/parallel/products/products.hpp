#pragma once
// Observes products of parameters with inputs while forward() computes them.
//
// For y = x W, the gradient of W is the product of x and the gradient of y, the
// *delta*. Both have as many rows as the batch, and are often smaller than W.
// Layers need not be rewritten: every operation goes through the dispatcher,
// which reports inputs and outputs to observers (RecordFunction).

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <compare>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sheaf/parallel/products/graph.hpp"

namespace sheaf::parallel {

// The part of a parameter that was used in a product, as a matrix of in x out
// elements.
struct WeightView {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t in_stride = 0;
  std::int64_t out_stride = 0;
  std::int64_t offset = 0;
  // The input holds row indices instead of rows, as in an embedding.
  bool is_lookup = false;
  auto operator<=>(const WeightView&) const = default;
};

// The part of a tensor with the parameter's layout, as out x in.
at::Tensor part_of(const at::Tensor& like_parameter, const WeightView& view);

struct Product {
  std::size_t weight = 0;  // index among the parameters
  std::optional<std::size_t> bias;
  WeightView view;
  at::Tensor input;  // rows x in; for a lookup, row indices
  std::shared_ptr<torch::autograd::Node> node;
  std::shared_ptr<torch::autograd::Node> input_node;  // produced the input
  bool is_transposed = false;  // y = W x: the delta has the shape out x rows
  // Edges of the node to the producers of the weight, the bias and the input.
  std::size_t weight_edge = 0;
  std::size_t bias_edge = 0;
  std::size_t input_edge = 0;

  LayerNodes nodes() const {
    return {node, input_node, !is_transposed && !view.is_lookup};
  }
  // Returns the delta as rows x out.
  at::Tensor delta(const at::Tensor& gradient) const;
};

// Reports every product on this thread between start() and stop().
class ProductWatch {
 public:
  using Handler = std::function<void(Product)>;

  ProductWatch(const std::vector<at::Tensor>& parameters, Handler on_product);
  ~ProductWatch() { stop(); }
  ProductWatch(const ProductWatch&) = delete;
  ProductWatch& operator=(const ProductWatch&) = delete;

  void start();
  void stop();

  // Called by the observer.
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
  void notify(Product product, const at::Tensor& output);

  std::vector<at::Tensor> parameters_;
  std::unordered_multimap<const void*, std::size_t> by_storage_;
  Handler on_product_;
  std::optional<std::uint64_t> handle_;  // the active observer
};

}  // namespace sheaf::parallel
