#pragma once
// Messages of unequal size from every rank to all ranks.

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::parallel {

enum class Where {
  kAllGather,
  kStar,  // to rank 0, and from there to all: for hosts that reach only it
};

// By rank. One message where none has more than 63 numbers, else two.
using Numbers = std::vector<std::int64_t>;
std::vector<Numbers> share_numbers(const comm::Group& group, Where where,
                                   const Numbers& mine);

// By rank; `sizes` are those of all ranks. Bytes on the CPU.
std::vector<at::Tensor> share_bytes(const comm::Group& group, Where where,
                                    const at::Tensor& mine,
                                    const std::vector<std::size_t>& sizes);

// The same on rank 0 only; other ranks get empty tensors.
std::vector<at::Tensor> gather_bytes(const comm::Group& group,
                                     const at::Tensor& mine,
                                     const std::vector<std::size_t>& sizes);
std::vector<at::Tensor> split_bytes(const at::Tensor& all,
                                    const std::vector<std::size_t>& sizes);

// A matrix on its way.
struct WireFormat {
  std::optional<at::ScalarType> type = {};  // none: as it is
  // A bit for each element and the elements that are not zero, where that is
  // shorter.
  bool skips_zeros = false;
};
at::Tensor encode(const at::Tensor& matrix, const WireFormat& format);
// A matrix of that shape and type, on the CPU.
at::Tensor decode(const at::Tensor& bytes, at::IntArrayRef sizes,
                  at::ScalarType type, const WireFormat& format);

}  // namespace sheaf::parallel
