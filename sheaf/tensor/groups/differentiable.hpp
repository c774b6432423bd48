#pragma once
// Collectives that autograd records: each returns a new tensor, and its
// backward pass is the matching collective on the gradients, as in Python's
// torch.distributed.nn.functional.
//
//   at::Tensor all = at::cat(differentiable::all_gather(world, features));
//   contrastive_loss(all).backward();   // every rank's `features` get a grad
//
// | forward        | backward                                        |
// |----------------|-------------------------------------------------|
// | all_reduce     | all_reduce                                      |
// | reduce         | broadcast from the root                         |
// | broadcast      | reduce to the root                              |
// | all_gather     | reduce_scatter                                  |
// | reduce_scatter | all_gather                                      |
// | gather         | scatter                                         |
// | scatter        | gather                                          |
// | all_to_all     | all_to_all with the sizes swapped               |
//
// A rank's gradient is thus that of the sum of the losses of all ranks. To
// minimize their average, divide the loss by the number of ranks, or average
// the gradients of the weights.
//
// Order: all ranks call these functions in the same order, and all run the
// backward pass, in the same order too. Every rank must use its result in the
// value on which it calls backward(), if only multiplied by zero. (A list of
// inputs, as in torch::autograd::grad(), skips results that do not depend on
// them.) Ranks that run backward passes in different orders get MismatchError;
// if a rank does not run one at all, the others get TimeoutError or, once it
// has ended, CommError.
//
// Gradients: if the input of one rank requires a gradient, the results of all
// ranks do, so that all take part in the backward pass. All ranks get
// MismatchError if one of them has disabled gradients (NoGradGuard) while the
// input of another requires one. Gradients of gradients work if all ranks pass
// create_graph and inputs that require gradients, otherwise MismatchError. For
// this agreement each call needs one more small all-reduce.
//
// Tensors may have any strides and device; results are contiguous, on the
// device of the input, and share no memory with it. Types must be the same on
// all ranks. `options.op` is kSum or kAvg; `options.async` is not supported.
// Both cause UsageError otherwise. The results keep a copy of the group until
// their graph is freed. Threads: as for collectives.hpp. Autograd runs the
// backward pass of GPU tensors on a thread of its own, one per device, so
// ranks that are threads of one process must not share a GPU.

#include "sheaf/tensor/groups/collectives.hpp"

namespace sheaf::tensor::differentiable {

// The reduction over all ranks, which pass the same shape.
at::Tensor all_reduce(const Group& group, const at::Tensor& input,
                      const CollectiveOptions& options = {});
// The reduction on the root, zeros on other ranks.
at::Tensor reduce(const Group& group, const at::Tensor& input,
                  const CollectiveOptions& options = {});
// The root's input, on all ranks. Other ranks pass a tensor of the same shape,
// whose content is not used; its gradient is zero.
at::Tensor broadcast(const Group& group, const at::Tensor& input,
                     const CollectiveOptions& options = {});

// The inputs of all ranks, in rank order. Shapes may differ.
Tensors all_gather(const Group& group, const at::Tensor& input,
                   const CollectiveOptions& options = {});
// The same on the root. On other ranks the list has one tensor without
// elements: its sum is zero, and backward() on that sum takes part.
Tensors gather(const Group& group, const at::Tensor& input,
               const CollectiveOptions& options = {});

// The reduction of inputs[rank()] over all ranks. There is one input for each
// rank; shapes may differ between the inputs, but not between ranks.
at::Tensor reduce_scatter(const Group& group, const Tensors& inputs,
                          const CollectiveOptions& options = {});
// The same for one input, cut into equal chunks along its first axis.
at::Tensor reduce_scatter(const Group& group, const at::Tensor& input,
                          const CollectiveOptions& options = {});

// inputs[rank()] of the root. Other ranks pass an empty list. `like` has the
// shape, type and device of the result; its content is not used, and its
// gradient is zero.
at::Tensor scatter(const Group& group, const Tensors& inputs,
                   const at::Tensor& like,
                   const CollectiveOptions& options = {});

// Element r of the result is inputs[rank()] of rank r. Shapes may differ.
Tensors all_to_all(const Group& group, const Tensors& inputs,
                   const CollectiveOptions& options = {});

}  // namespace sheaf::tensor::differentiable
