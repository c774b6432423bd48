#pragma once
// NCCL collectives on CUDA tensors, for worlds started with backend nccl. Each
// function returns false if NCCL does not apply: another backend, a tensor on
// the CPU or not dense, a type that NCCL lacks, or a reduction that must be
// reproducible, since NCCL guarantees no summation order. The caller then uses
// the route through host memory.
//
// All ranks of the group must call the same operation. They compare their
// arguments before NCCL is called, since NCCL would hang on a mismatch. Results
// are ordered by the current stream, as with any kernel.

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
