#pragma once
// The operations of a group on tensors; rules as in comm/collectives.hpp.
//
// Tensors may be of any shape, strides and device (those on a GPU travel
// through pinned memory, or by NCCL: see init.hpp); results are written into
// the tensors given. All ranks give the same type and shape, except where a
// comment says otherwise. Devices may differ, GPUs and processors too; with
// NCCL, all are on GPUs or none: other mixtures are a MismatchError.
// With `async` the tensors are kept alive until the operation has ended, also
// when its Work is dropped; they hold their result after wait() on the Work.
// Autograd does not see these operations.

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
// In place on the root; what other ranks hold afterwards is not specified.
Work reduce(const Group& group, const at::Tensor& data,
            const CollectiveOptions& options = {});
Work all_reduce(const Group& group, const at::Tensor& data,
                const CollectiveOptions& options = {});
// Several tensors of one type in one go.
Work all_reduce_n(const Group& group, const Tensors& data,
                  const CollectiveOptions& options = {});

// outputs[r] becomes rank r's input, on all or on the root. Inputs may differ
// in shape: outputs[r] has as many elements as rank r's input.
Work all_gather(const Group& group, const at::Tensor& input,
                const Tensors& outputs, const CollectiveOptions& options = {});
Work gather(const Group& group, const at::Tensor& input, const Tensors& outputs,
            const CollectiveOptions& options = {});
// The inputs one after the other, in memory order.
Work all_gather(const Group& group, const at::Tensor& input,
                const at::Tensor& output,
                const CollectiveOptions& options = {});

// inputs[r] of the root becomes rank r's output; other ranks give no inputs.
// They may differ in shape: inputs[r] has as many elements as rank r's output.
Work scatter(const Group& group, const Tensors& inputs,
             const at::Tensor& output, const CollectiveOptions& options = {});

// The reduction of everyone's inputs[r] becomes rank r's output.
Work reduce_scatter(const Group& group, const Tensors& inputs,
                    const at::Tensor& output,
                    const CollectiveOptions& options = {});
// The same with inputs one after the other, all of the output's size.
Work reduce_scatter(const Group& group, const at::Tensor& input,
                    const at::Tensor& output,
                    const CollectiveOptions& options = {});

// inputs[r] becomes outputs[rank()] of rank r. They may differ in shape, as
// long as each pair has as many elements.
Work all_to_all(const Group& group, const Tensors& inputs,
                const Tensors& outputs, const CollectiveOptions& options = {});

void send(const Group& group, const at::Tensor& data, int to,
          const MessageOptions& options = {});
// Returns the sender, which matters with kAnySource.
int recv(const Group& group, const at::Tensor& data, int from,
         const MessageOptions& options = {});
Work isend(const Group& group, const at::Tensor& data, int to,
           const MessageOptions& options = {});
Work irecv(const Group& group, const at::Tensor& data, int from,
           const MessageOptions& options = {});

}  // namespace sheaf::tensor
