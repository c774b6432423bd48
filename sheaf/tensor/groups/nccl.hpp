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
#include "sheaf/comm/group/group.hpp"

namespace sheaf::tensor::nccl {

// Selects NCCL for a world.

// Throws UsageError if this build has no NCCL or this process no GPU.
void check_available();
// Applies to the world and all its groups; all ranks must pass the same value.
void enable(const comm::Group& world, bool is_on = true);
bool is_enabled(const comm::Group& group);

// The operations.

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
