#pragma once
// Access to the memory and element types of tensors for communication.

#include <torch/types.h>

#include <vector>

#include "sheaf/base/dtype.hpp"
#include "sheaf/comm/group/buffer.hpp"
#include "sheaf/comm/group/group.hpp"

namespace sheaf::tensor {

// Throws UsageError for types that groups cannot exchange: complex, quantized.
DType dtype_of(at::ScalarType type);
at::ScalarType scalar_type_of(DType dtype);

// An uninitialized CPU tensor in memory that all ranks of this host can read,
// like Group::allocate(): operations use it without a copy. The tensor may
// outlive the group's handle, but not the world.
at::Tensor empty_shared(const comm::Group& group, at::IntArrayRef sizes,
                        at::ScalarType type = at::kFloat);

// The memory of a contiguous CPU tensor. The tensor must outlive the buffer.
comm::Buffer buffer_of(const at::Tensor& tensor);

// A contiguous CPU tensor that replaces `tensor` in an operation: an alias of
// `tensor` if that is possible, otherwise a staging copy, which holds the
// values only if `with_content`. Throws UsageError for sparse and undefined
// tensors.
at::Tensor staged(const at::Tensor& tensor, bool with_content = true);
// Copies the result from the staging copy back, unless it is an alias.
void unstage(const at::Tensor& stand_in, const at::Tensor& tensor);

// "Float [2, 3] cpu", for messages.
std::string describe(const at::Tensor& tensor);
// The properties that must be equal on all ranks: "Float [2, 3]". Devices are
// excluded, since each rank of a host uses a different one.
std::string signature(const at::Tensor& tensor);

}  // namespace sheaf::tensor
