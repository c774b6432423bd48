#pragma once
// The network of a case: an ordinary module that does not know about ranks.
//
// Every block may have these attributes: residual=1 adds its input, twice=1
// calls it twice, checkpoint=1 recomputes it within backward, hook=1 halves the
// gradient of its output, keep=1 keeps its output for a penalty, output=1
// returns its output as well, frozen=1 freezes it from the start,
// parameter_hook=1 doubles the gradients of its parameters, alias=1 registers
// its first parameter under a second name.

#include "plain/block.hpp"

namespace differential {

// An exception that a case requests.
class Planned : public std::runtime_error {
 public:
  Planned() : std::runtime_error(kText) {}
  static constexpr const char* kText = "an exception that the case asks for";
};
bool is_planned(const std::exception& error);

// The blocks that throw, numbered from 1; 0: none.
struct Throws {
  std::int64_t forward = 0;
  std::int64_t backward = 0;  // when the gradient of its output arrives
  // When the gradient of its first parameter arrives.
  std::int64_t parameter = 0;
};

class Net : public torch::nn::Module {
 public:
  // The weights are determined by the seed.
  Net(const Case& one, std::uint64_t weights_seed);

  std::vector<at::Tensor> forward(const at::Tensor& x,
                                  const std::vector<at::Tensor>& more);

  const Shape& input() const { return input_; }
  // The hidden tensors of the last forward() that a penalty may use.
  const std::vector<at::Tensor>& kept() const { return kept_; }
  void set_kept(std::vector<at::Tensor> kept) { kept_ = std::move(kept); }
  void throw_at(const Throws& throws) { throws_ = throws; }
  void freeze(std::int64_t block, bool is_frozen);
  void set_casts(bool casts) { casts_ = casts; }

 private:
  at::Tensor run(std::size_t index, const at::Tensor& x,
                 const PassInputs& inputs);
  void add_hooks(const Case& one, std::size_t index);

  std::vector<Item> items_;
  std::vector<BlockPointer> blocks_;
  Shape input_;
  std::vector<at::Tensor> kept_;
  Throws throws_;
  bool casts_ = false;
};

Shape input_shape(const Case& one);
// The shapes before and after each block; throws BadCase if they do not fit.
std::vector<Shape> shapes_of(const Case& one);
// The vocabulary size of tokens, which all embeddings share.
std::int64_t words_of(const Case& one);
// The type of parameters and inputs.
at::ScalarType type_of(const Case& one);
at::Device device_of(const Case& one);

}  // namespace differential
