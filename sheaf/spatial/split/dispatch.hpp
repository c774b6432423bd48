#pragma once
// Connects libtorch's dispatcher to the operations on split tensors. Every
// operation with a split tensor among its arguments is dispatched here first.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/types.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sheaf/halo/window.hpp"
#include "sheaf/spatial/split/split_tensor.hpp"

namespace sheaf::spatial {

// The arguments of an operation, and access to its results.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : op_(op), stack_(stack), count_(op.schema().arguments().size()) {}

  const c10::OperatorHandle& op() const { return op_; }
  std::string name() const { return op_.schema().name(); }
  std::size_t count() const { return count_; }
  c10::IValue& operator[](std::size_t i);
  // The index of an argument, by name, because it depends on the overload.
  std::optional<std::size_t> place(const char* name) const;
  at::Tensor tensor(std::size_t i);  // undefined if absent
  std::vector<std::int64_t> integers(std::size_t i, std::size_t count);

  // Replaces the arguments on the stack with the result.
  void give(c10::IValue result);
  void give(c10::IValue first, c10::IValue second);
  // Calls the operation with the current arguments.
  void compute() { op_.callBoxed(&stack_); }
  c10::IValue& result(std::size_t i) {
    return stack_[stack_.size() - op_.schema().returns().size() + i];
  }

  // Throws a UsageError that contains the operation, the reason and advice.
  [[noreturn]] void refuse(const std::string& reason);

 private:
  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  const std::size_t count_;
};

using Operation = void (*)(Call&);
// Whether an operation supports tensors whose last axes are flattened.
enum class Flat { kRefused, kTaken };
struct Rule {
  Rule(Operation compute, Flat flat = Flat::kRefused)
      : compute(compute), flat(flat) {}
  Operation compute;
  Flat flat;
};
// Rules by name, or by name and overload: "aten::max.other". All ranks throw an
// error for operations without a rule, for flattened tensors that the rule does
// not support, and for results written into given tensors (out).
using Operations = std::unordered_map<std::string, Rule>;

void add_pointwise_operations(Operations& table);
void add_shape_operations(Operations& table);
void add_window_operations(Operations& table);
void add_adaptive_operations(Operations& table);
void add_local_operations(Operations& table);
void add_resize_operations(Operations& table);
void add_norm_operations(Operations& table);
void add_reduce_operations(Operations& table);
void add_loss_operations(Operations& table);
void add_linear_operations(Operations& table);
void add_dropout_operations(Operations& table);

// Ensures that the operations are registered with the dispatcher.
void use_split_operations();

// The first split tensor among the arguments.
at::Tensor first_split(Call& call);
// This rank's part of an argument that is split in any way or whole, to be
// combined with tensors cut as `split`. Sizes follow the broadcasting rules.
at::Tensor part_like(Call& call, const at::Tensor& given, const Split& split);
// Redistributes a split tensor to another layout; differentiable.
at::Tensor recut(const at::Tensor& local, const Split& from, const Split& to);
// The split of a result that has the sizes of `local` on axes that are not cut.
Split split_like(const Split& split, const at::Tensor& local);

// The call's first tensor; it must be split along the axes of its images, which
// are the last ones.
at::Tensor image_of(Call& call, std::size_t axes);
// The windows along those axes; an empty stride means the kernel size.
std::vector<halo::Window> windows_of(const std::vector<std::int64_t>& kernel,
                                     const std::vector<std::int64_t>& stride,
                                     const std::vector<std::int64_t>& padding,
                                     const std::vector<std::int64_t>& dilation,
                                     bool ceil_mode);

// Converts a negative axis to one counted from the front.
std::int64_t front_axis(std::int64_t axis, std::int64_t axes);

}  // namespace sheaf::spatial
