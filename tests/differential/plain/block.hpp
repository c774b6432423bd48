#pragma once
// One block of a network: a function of a tensor, with its parameters.

#include <torch/torch.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plain/case.hpp"

namespace differential {

enum class Kind { kFlat, kSequence, kTokens, kImage };

// The shape of tensors between blocks, without the axis of rows: {features},
// {time, features}, {time} or {channels, height, width}.
struct Shape {
  Kind kind = Kind::kFlat;
  std::vector<std::int64_t> sizes;

  std::int64_t features() const { return sizes.back(); }
  std::int64_t elements() const;
  bool operator==(const Shape&) const = default;
};

// Additional inputs of a forward pass.
struct PassInputs {
  std::vector<at::Tensor> more;  // further inputs
  // Layers marked with bf16=1 cast like a precision plan.
  bool casts = false;
};

struct Block : torch::nn::Module {
  virtual at::Tensor run(const at::Tensor& x, const PassInputs& inputs) = 0;
};
using BlockPointer = std::shared_ptr<Block>;

// The arguments and results of a block factory.
struct BlockPlan {
  const Item& item;
  Shape in;
  Shape out;  // set by the factory
};
using BlockFactory = std::function<BlockPointer(BlockPlan&)>;

// Factories by kind of block; each of the three files of blocks adds its kinds.
using BlockTable = std::map<std::string, BlockFactory>;
void add_row_blocks(BlockTable& table);
void add_sequence_blocks(BlockTable& table);
void add_image_blocks(BlockTable& table);

// Throws BadCase unless the condition holds.
void require(bool condition, const std::string& what);

// A block without parameters, and one with parameters of given names and sizes.
using Parameters = std::vector<at::Tensor>;
using Function = std::function<at::Tensor(const at::Tensor&, const Parameters&,
                                          const PassInputs&)>;
BlockPointer make_block(Function function);
BlockPointer make_block(
    const std::vector<std::pair<std::string, std::vector<std::int64_t>>>&
        parameters,
    Function function);

// x W' + b in the precision of the item; `bias` may be undefined.
at::Tensor product(const at::Tensor& x, const at::Tensor& weight,
                   const at::Tensor& bias, bool is_bf16, bool casts);

}  // namespace differential
