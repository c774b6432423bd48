#pragma once
// From libtorch's dispatcher to this layer's operations. Every operation with a
// split tensor among its arguments comes here first.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/types.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sheaf/halo/window.hpp"
#include "sheaf/spatial/split/split_tensor.hpp"

namespace sheaf::spatial {

// An operation's arguments, and where its results go.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : op_(op), stack_(stack), count_(op.schema().arguments().size()) {}

  const c10::OperatorHandle& op() const { return op_; }
  std::string name() const { return op_.schema().name(); }
  std::size_t count() const { return count_; }
  c10::IValue& operator[](std::size_t i);
  // Of an argument, by its name, as overloads differ.
  std::optional<std::size_t> place(const char* name) const;
  at::Tensor tensor(std::size_t i);  // undefined for none
  std::vector<std::int64_t> integers(std::size_t i, std::size_t count);

  // The arguments make room for the result.
  void give(c10::IValue result);
  void give(c10::IValue first, c10::IValue second);
  // Calls the operation with the arguments as they are now.
  void compute() { op_.callBoxed(&stack_); }
  c10::IValue& result(std::size_t i) {
    return stack_[stack_.size() - op_.schema().returns().size() + i];
  }

  // UsageError that names the operation, and what to do.
  [[noreturn]] void refuse(const std::string& reason);

 private:
  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  const std::size_t count_;
};

using Operation = void (*)(Call&);
// Whether an operation knows tensors whose last axes are shown as one.
enum class Flat { kRefused, kTaken };
struct Rule {
  Rule(Operation compute, Flat flat = Flat::kRefused)
      : compute(compute), flat(flat) {}
  Operation compute;
  Flat flat;
};
// By name, or by name and overload: "aten::max.other". Whatever has no rule is
// an error on all ranks, and so are flattened tensors where a rule does not
// take them, and results that are to go into given tensors (out).
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

// Makes sure that the dispatcher knows them.
void use_split_operations();

// The first split tensor among the arguments.
at::Tensor first_split(Call& call);
// This rank's part of an argument, which may be split, in any way, or whole, to
// go with tensors cut as `split`: sizes follow by broadcasting.
at::Tensor part_like(Call& call, const at::Tensor& given, const Split& split);
// A split tensor cut in another way; differentiable.
at::Tensor recut(const at::Tensor& local, const Split& from, const Split& to);
// The split of a result whose axes that are not cut are as in `local`.
Split split_like(const Split& split, const at::Tensor& local);

// The call's first tensor, which is to be split along axes of its images, the
// last ones.
at::Tensor image_of(Call& call, std::size_t axes);
// Of those axes; an empty stride is the kernel's.
std::vector<halo::Window> windows_of(const std::vector<std::int64_t>& kernel,
                                     const std::vector<std::int64_t>& stride,
                                     const std::vector<std::int64_t>& padding,
                                     const std::vector<std::int64_t>& dilation,
                                     bool ceil_mode);

// Axes counted from the front.
std::int64_t front_axis(std::int64_t axis, std::int64_t axes);

}  // namespace sheaf::spatial
