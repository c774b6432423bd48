#pragma once
// The exchanges used by operations on split tensors, each with its exact
// adjoint as gradient. All ranks must call them in the same order.
//
// The differentiated quantity is the sum over all ranks: each rank's gradients
// are those of the sum of all ranks' losses. A loss that all ranks compute
// equally therefore counts once per rank, and the mean over ranks of the
// weights' gradients, which data parallelism computes anyway, is the gradient
// of that loss.

#include <torch/types.h>

#include <vector>

#include "sheaf/spatial/split/split_tensor.hpp"

namespace sheaf::spatial {

// The range of an axis that a rank needs within the image, and the padding on
// both sides.
struct Need {
  halo::Interval inside;
  std::int64_t low = 0;
  std::int64_t high = 0;
};
// By rank, then by axis of the grid.
using Needs = std::vector<std::vector<Need>>;

// This rank's part, extended or cropped to the range that it needs, with `fill`
// outside the image.
at::Tensor with_halo(const at::Tensor& local, const Split& split,
                     const Needs& needs, double fill = 0);

// The memory of a tensor in the layout of two axes that are not cut, followed
// by the axes of the grid.
halo::View view_of(const at::Tensor& plain);
// The ranges that each rank needs, without padding.
std::vector<halo::Box> boxes_of(const Needs& needs);

// grown_tile() allocates the range that a rank needs of such a tensor, with
// padding set to `fill`; inside_of() returns the part of it within the image.
at::Tensor grown_tile(const at::Tensor& plain, const std::vector<Need>& needs,
                      double fill);
at::Tensor inside_of(at::Tensor grown, const std::vector<Need>& needs);

// constant_pad_nd() that also supports results without elements, as on a rank
// without a part of the image.
at::Tensor padded(const at::Tensor& tensor,
                  const std::vector<std::int64_t>& padding,
                  const at::Scalar& value);
// A tensor without elements that depends on `others` for autograd.
at::Tensor nothing_from(const std::vector<at::Tensor>& others,
                        const std::vector<std::int64_t>& sizes);

// The sum over ranks, on all ranks.
at::Tensor sum_over_tiles(const at::Tensor& local,
                          const std::shared_ptr<Tiles>& tiles);

// The whole tensor, gathered from all parts.
at::Tensor gather_parts(const at::Tensor& local, const Split& split);
// This rank's part of a tensor that all ranks have; the gradient covers that
// part only.
at::Tensor own_part(const at::Tensor& whole, const Split& split);
// The same, except that all ranks get the gradient of the whole tensor,
// averaged over their losses, as in a single process.
at::Tensor cut_part(const at::Tensor& whole, const Split& split);

}  // namespace sheaf::spatial
