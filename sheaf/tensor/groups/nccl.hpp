#pragma once
// Operations on CUDA tensors by NCCL, for worlds that were started with backend
// nccl. Each function returns false when the operation is not NCCL's: another
// backend, a tensor on the CPU or not dense, a type that NCCL lacks, or a
// reduction that must be reproducible, for NCCL promises no order of adding.
// The caller then takes the route through the host's memory.
//
// Before NCCL is called the ranks compare what they are about to do, for NCCL
// itself would hang where they disagree. Results are ordered by the current
// stream, as with any kernel.

#include <torch/types.h>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/tensor/groups/nccl_backend.hpp"

namespace sheaf::tensor::nccl {

bool broadcast(const comm::Group& group, const at::Tensor& data,
               const comm::CollectiveOptions& options);
bool reduce(const comm::Group& group, const at::Tensor& data,
            const comm::CollectiveOptions& options);
bool all_reduce(const comm::Group& group, const at::Tensor& data,
                const comm::CollectiveOptions& options);
bool all_gather(const comm::Group& group, const at::Tensor& input,
                const at::Tensor& output,
                const comm::CollectiveOptions& options);
bool reduce_scatter(const comm::Group& group, const at::Tensor& input,
                    const at::Tensor& output,
                    const comm::CollectiveOptions& options);

}  // namespace sheaf::tensor::nccl
