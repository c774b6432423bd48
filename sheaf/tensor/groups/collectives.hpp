#pragma once
// Collectives and messages on tensors. The rules of comm/group/collectives.hpp
// apply, also to threads: all ranks of the group call the same operations in
// the same order.
//
// Tensors may have any shape, strides and device. GPU tensors travel through
// pinned host memory, or by NCCL (see init.hpp). Results are written into the
// given tensors. All ranks pass the same type and shape unless a comment below
// states otherwise. Devices may differ between ranks, even CPU and GPU; with
// NCCL, either all ranks use GPUs or none does, else MismatchError.
// With `async` the tensors stay alive until the operation has completed, even
// if its Work is destroyed; they hold the result after wait() on the Work.
// Autograd does not record these operations.

#include <torch/types.h>

#include <vector>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/point_to_point.hpp"

namespace sheaf::tensor {

using comm::CollectiveOptions;
using comm::Group;
using comm::MessageOptions;
using comm::Work;
using Tensors = std::vector<at::Tensor>;

Work broadcast(const Group& group, const at::Tensor& data,
               const CollectiveOptions& options = {});
// In place on the root; the content on other ranks is unspecified afterwards.
Work reduce(const Group& group, const at::Tensor& data,
            const CollectiveOptions& options = {});
Work all_reduce(const Group& group, const at::Tensor& data,
                const CollectiveOptions& options = {});
// Reduces several tensors of the same type in one operation.
Work all_reduce_n(const Group& group, const Tensors& data,
                  const CollectiveOptions& options = {});

// outputs[r] receives rank r's input: on all ranks (all_gather) or on the root
// (gather; other ranks pass an empty list). Inputs may differ in shape:
// outputs[r] must have as many elements as rank r's input.
Work all_gather(const Group& group, const at::Tensor& input,
                const Tensors& outputs, const CollectiveOptions& options = {});
Work gather(const Group& group, const at::Tensor& input, const Tensors& outputs,
            const CollectiveOptions& options = {});
// The inputs of all ranks are concatenated in rank order.
Work all_gather(const Group& group, const at::Tensor& input,
                const at::Tensor& output,
                const CollectiveOptions& options = {});

// The root's inputs[r] becomes rank r's output; other ranks pass an empty list.
// Shapes may differ: inputs[r] must have as many elements as rank r's output.
Work scatter(const Group& group, const Tensors& inputs,
             const at::Tensor& output, const CollectiveOptions& options = {});

// Rank r's output is the reduction of inputs[r] over all ranks.
Work reduce_scatter(const Group& group, const Tensors& inputs,
                    const at::Tensor& output,
                    const CollectiveOptions& options = {});
// The same with the inputs concatenated, each with the output's element count.
Work reduce_scatter(const Group& group, const at::Tensor& input,
                    const at::Tensor& output,
                    const CollectiveOptions& options = {});

// inputs[r] becomes outputs[rank()] on rank r. Shapes may differ if both
// tensors of a pair have the same number of elements.
Work all_to_all(const Group& group, const Tensors& inputs,
                const Tensors& outputs, const CollectiveOptions& options = {});

void send(const Group& group, const at::Tensor& data, int to,
          const MessageOptions& options = {});
// Returns the rank of the sender, for use with kAnySource.
int recv(const Group& group, const at::Tensor& data, int from,
         const MessageOptions& options = {});
Work isend(const Group& group, const at::Tensor& data, int to,
           const MessageOptions& options = {});
Work irecv(const Group& group, const at::Tensor& data, int from,
           const MessageOptions& options = {});

}  // namespace sheaf::tensor
