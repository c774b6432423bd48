#pragma once
// Exchanges messages of unequal size between all ranks.

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/dad/dad_options.hpp"

namespace sheaf::parallel {

// Returns the numbers of all ranks, by rank. One message if no rank has more
// than 63 numbers, otherwise two. All ranks must call it.
using Numbers = std::vector<std::int64_t>;
std::vector<Numbers> share_numbers(const comm::Group& group, Where where,
                                   const Numbers& mine);

// Returns the bytes of all ranks, by rank; `sizes` are the sizes on all ranks.
// The tensors are on the CPU. All ranks must call it.
std::vector<at::Tensor> share_bytes(const comm::Group& group, Where where,
                                    const at::Tensor& mine,
                                    const std::vector<std::size_t>& sizes);

// The same on rank 0 only; other ranks get empty tensors.
std::vector<at::Tensor> gather_bytes(const comm::Group& group,
                                     const at::Tensor& mine,
                                     const std::vector<std::size_t>& sizes);
std::vector<at::Tensor> split_bytes(const at::Tensor& all,
                                    const std::vector<std::size_t>& sizes);

// The encoding of a matrix in messages.
struct WireFormat {
  std::optional<at::ScalarType> type = {};  // unset: unchanged
  // Sends a bit mask and the nonzero elements, if that is shorter.
  bool skips_zeros = false;
};
at::Tensor encode(const at::Tensor& matrix, const WireFormat& format);
// Returns a matrix with the given shape and type, on the CPU.
at::Tensor decode(const at::Tensor& bytes, at::IntArrayRef sizes,
                  at::ScalarType type, const WireFormat& format);

}  // namespace sheaf::parallel
