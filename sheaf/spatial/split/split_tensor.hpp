#pragma once
// A tensor of which each rank has a part, and which knows how it is cut.
//
// To users' modules it is an ordinary tensor: it has the sizes of the whole,
// and operations on it come to kernels of this layer (dispatch.cpp), which
// compute this rank's part. Autograd sees the parts only: requires_grad() is
// that of the part, and what would need a gradient of the whole (hooks, grad(),
// backward() of the tensor itself, functions of one's own) is an error, as are
// strides, which the whole has not.

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "sheaf/spatial/split/tiles.hpp"

namespace sheaf::spatial {

// How a tensor is cut. Cuts of an axis that is not cut have one part.
struct Split {
  std::shared_ptr<Tiles> tiles;
  std::vector<std::int64_t> sizes;  // of the whole
  // By axis of the grid: which axis of the tensor it cuts; -1: none.
  std::vector<int> cut_axes;
  halo::Layout layout;
  // Whether one process might have the tensor in another order in memory than
  // that of its axes, such as channels_last: one that it was computed from may
  // have been. Parts do not show it.
  bool may_be_reordered = false;

  // The axis of the grid that cuts an axis of the tensor; -1: none does.
  int grid_axis(std::int64_t axis) const;
  bool is_cut(std::int64_t axis) const { return grid_axis(axis) >= 0; }
  // Of this rank, or of any.
  halo::Interval interval(std::int64_t axis) const;
  halo::Interval interval(std::int64_t axis, int rank) const;
  std::vector<std::int64_t> local_sizes() const;
  bool has_nothing() const;  // on this rank
  std::string text() const;  // "2x3x[0|4|8]x8"
};
bool operator==(const Split& a, const Split& b);  // but for that order
// The same of any tensor.
bool may_be_reordered(const at::Tensor& tensor);

// This rank's part of a tensor, and how that is cut. `flat_from`: axes from
// there on are shown as one, as flatten() does.
at::Tensor make_split(at::Tensor local, Split split, int flat_from = -1);

bool is_split(const at::Tensor& tensor);
// Of split tensors only.
const at::Tensor& local_of(const at::Tensor& tensor);
void set_local(const at::Tensor& tensor, at::Tensor local);
const Split& split_of(const at::Tensor& tensor);
// Whether the tensor would be a view with gaps in the memory of one process:
// some kernels of libtorch then compute in another way. Parts do not show it.
bool may_have_gaps(const at::Tensor& tensor);
void set_gaps(const at::Tensor& tensor);
int flat_from(const at::Tensor& tensor);

// Why operations must not take a split tensor, though it looks like one: it has
// hooks, which would not be called, or a history that its part does not have.
// Empty if they may.
std::string why_unusable(const at::Tensor& tensor);
// After an operation has changed the part in place.
void refresh_history(const at::Tensor& tensor);

// UsageError unless the device is the host, where tiles lie; `what` is on it.
void check_on_host(const std::string& what, const at::Device& device);

// Cuts a tensor that all ranks have: `first_axis` and those after it, by the
// axes of the grid in turn. Nothing is sent. Differentiable: each rank gets the
// gradient of the whole tensor, that of one process, by one sum.
at::Tensor cut(const at::Tensor& whole, const std::shared_ptr<Tiles>& tiles,
               int first_axis = 2);
// The same with this rank's part at hand, of a tensor of `sizes`.
at::Tensor from_part(const at::Tensor& part,
                     const std::shared_ptr<Tiles>& tiles,
                     std::vector<std::int64_t> sizes, int first_axis = 2);
// The whole, on all ranks; differentiable. All ranks call it.
at::Tensor gather(const at::Tensor& split);

}  // namespace sheaf::spatial
