#pragma once
// Checks whether all ranks of a group hold the same tensors and options, and
// copies tensors from one rank to all.

#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::parallel {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Throws UsageError on all ranks if a tensor differs from rank 0's in name,
// type, shape or requires_grad; the message contains the tensor and the rank.
// Tensors that require gradients must also have the same memory order, because
// gradients are exchanged in that order. Sparse tensors are rejected, because
// they cannot be copied to other ranks. All ranks must call it.
void check_same_shapes(const comm::Group& group, const NamedTensors& tensors);

// Throws UsageError on all ranks if the value of an option differs from rank
// 0's; the message contains the option and the rank. All ranks must call it,
// with the same option names.
using NamedOption = std::pair<std::string, std::string>;
void check_same_options(const comm::Group& group, const std::string& what,
                        const std::vector<NamedOption>& options);

// Compares checksums of the tensors' bits. Throws CheckError on all ranks if
// they differ; the message contains the first tensor that differs from rank
// 0's, and the ranks. All ranks must call it.
void check_same_bits(const comm::Group& group, const NamedTensors& tensors);

// Copies the tensors of `root` to all ranks, in few large messages. All ranks
// must call it. Where is_uncounted[i] is true, writing to tensor i does not
// increment its version counter.
void broadcast_tensors(const comm::Group& group, const NamedTensors& tensors,
                       int root = 0,
                       const std::vector<bool>& is_uncounted = {});

// Returns the texts of all ranks, by rank, each truncated to 255 bytes. All
// ranks must call it.
std::vector<std::string> share_texts(const comm::Group& group,
                                     const std::string& mine);

// A 64-bit checksum over all bytes of the tensor.
std::uint64_t checksum(const at::Tensor& tensor);

}  // namespace sheaf::parallel
