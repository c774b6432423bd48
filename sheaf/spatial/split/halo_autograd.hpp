#pragma once
// The exchanges that operations on split tensors are made of, each with its
// exact adjoint as gradient. All ranks call them in the same order.
//
// What is computed is the sum of all ranks' results: each rank's gradients are
// those of the sum over ranks of their losses. So a loss that all ranks compute
// alike counts as often as there are ranks, and the mean over ranks of weights'
// gradients, which data parallelism takes anyway, is the gradient of that loss.

#include <torch/types.h>

#include <vector>

#include "sheaf/spatial/split/split_tensor.hpp"

namespace sheaf::spatial {

// What a rank needs along an axis of the tensor, within the image, and what it
// adds on both sides.
struct Need {
  halo::Interval inside;
  std::int64_t low = 0;
  std::int64_t high = 0;
};
// By rank, then by axis of the grid.
using Needs = std::vector<std::vector<Need>>;

// This rank's part, grown or cropped to what it needs, with `fill` where the
// image ends.
at::Tensor with_halo(const at::Tensor& local, const Split& split,
                     const Needs& needs, double fill = 0);

// Memory of a tensor of two axes that are not cut and those of the grid.
halo::View view_of(const at::Tensor& plain);
// What each rank needs, without what it adds.
std::vector<halo::Box> boxes_of(const Needs& needs);

// Room for what a rank needs of such a tensor, `fill` where it adds some; and
// the part of it that is of the image.
at::Tensor grown_tile(const at::Tensor& plain, const std::vector<Need>& needs,
                      double fill);
at::Tensor inside_of(at::Tensor grown, const std::vector<Need>& needs);

// constant_pad_nd(), whose result may also have no elements, as on a rank
// without a part of the image.
at::Tensor padded(const at::Tensor& tensor,
                  const std::vector<std::int64_t>& padding,
                  const at::Scalar& value);
// A tensor without elements that depends on the others.
at::Tensor nothing_from(const std::vector<at::Tensor>& others,
                        const std::vector<std::int64_t>& sizes);

// The sum over ranks, on all of them.
at::Tensor sum_over_tiles(const at::Tensor& local,
                          const std::shared_ptr<Tiles>& tiles);

// All parts as one.
at::Tensor gather_parts(const at::Tensor& local, const Split& split);
// This rank's part of what all have; its gradient is of that part alone.
at::Tensor own_part(const at::Tensor& whole, const Split& split);
// The same, where all ranks get the gradient of the whole, averaged over their
// losses: that of one process.
at::Tensor cut_part(const at::Tensor& whole, const Split& split);

}  // namespace sheaf::spatial
