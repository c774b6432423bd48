#pragma once
// Tensors as the memory that operations work on.

#include <torch/types.h>

#include <vector>

#include "sheaf/comm/group/buffer.hpp"
#include "sheaf/comm/group/group.hpp"

namespace sheaf::tensor {

// A tensor in memory that all ranks of this host can read, as
// Group::allocate(): operations on it copy nothing. CPU only. It may outlive
// the handle on the group, but not the world.
at::Tensor empty_shared(const comm::Group& group, at::IntArrayRef sizes,
                        at::ScalarType type = at::kFloat);

// The memory of a contiguous tensor on the CPU. It must stay alive.
comm::Buffer buffer_of(const at::Tensor& tensor);

// A contiguous tensor on the CPU that stands for `tensor` in an operation: the
// tensor itself where it is one. `with_content` copies what it holds.
// UsageError for sparse and undefined tensors.
at::Tensor staged(const at::Tensor& tensor, bool with_content = true);
// Copies what an operation left in the stand-in back, if it is another tensor.
void unstage(const at::Tensor& stand_in, const at::Tensor& tensor);

// "Float [2, 3] cpu", for messages.
std::string describe(const at::Tensor& tensor);
// What ranks must agree on: "Float [2, 3]". The device is this rank's own
// affair, for ranks of a host have one each.
std::string signature(const at::Tensor& tensor);

}  // namespace sheaf::tensor
