#pragma once
// Whether the ranks of a group hold the same.

#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::parallel {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// UsageError on all ranks, naming the first tensor that differs from rank 0's
// in name, type, shape or in whether it requires a gradient, and the rank.
// Those that do must also have the same order of elements in memory, for
// gradients are exchanged in it. Also for a sparse tensor, which cannot be
// copied to other ranks. All ranks call it.
void check_same_shapes(const comm::Group& group, const NamedTensors& tensors);

// UsageError on all ranks, naming the first option whose value differs from
// rank 0's, and the rank. All ranks call it, with the same names.
using NamedOption = std::pair<std::string, std::string>;
void check_same_options(const comm::Group& group, const std::string& what,
                        const std::vector<NamedOption>& options);

// Compares checksums of the tensors' bits: CheckError on all ranks, naming the
// first tensor that differs from rank 0's, and the ranks. All ranks call it.
void check_same_bits(const comm::Group& group, const NamedTensors& tensors);

// Copies the tensors of `root` to all ranks, in few large messages.
// `is_uncounted`, by tensor: its version is not raised where it is written to.
void broadcast_tensors(const comm::Group& group, const NamedTensors& tensors,
                       int root = 0,
                       const std::vector<bool>& is_uncounted = {});

// By rank, cut to 255 bytes. All ranks call it.
std::vector<std::string> share_texts(const comm::Group& group,
                                     const std::string& mine);

// 64 bits that change with any bit of the tensor.
std::uint64_t checksum(const at::Tensor& tensor);

}  // namespace sheaf::parallel
