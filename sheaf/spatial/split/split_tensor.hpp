#pragma once
// A tensor of which each rank has a part, with a description of how it is cut.
//
// To user modules it looks like an ordinary tensor: it has the sizes of the
// whole tensor, and operations on it are dispatched to kernels of this layer
// (dispatch.cpp), which compute this rank's part. Autograd sees only the parts:
// requires_grad() is that of the part. Everything that needs a gradient of the
// whole tensor (hooks, grad(), backward() of the tensor itself, custom autograd
// functions) throws an error, and so do strides, because the whole tensor has
// none.

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "sheaf/spatial/split/parts.hpp"
#include "sheaf/spatial/split/tiles.hpp"

namespace sheaf::spatial {

// Describes how a tensor is cut. An axis that is not cut has a single part.
struct Split {
  std::shared_ptr<Tiles> tiles;
  std::vector<std::int64_t> sizes;  // of the whole tensor
  // By axis of the grid: the tensor axis that it cuts; -1: none.
  std::vector<int> cut_axes;
  halo::Tiling layout;
  // Whether the tensor might have a memory order other than that of its axes in
  // a single process, such as channels_last, because a tensor that it was
  // computed from may have had one. The parts do not show it.
  bool may_be_reordered = false;

  // The axis of the grid that cuts an axis of the tensor; -1: none.
  int grid_axis(std::int64_t axis) const;
  bool is_cut(std::int64_t axis) const { return grid_axis(axis) >= 0; }
  // The range of this rank, or of any rank.
  halo::Interval interval(std::int64_t axis) const;
  halo::Interval interval(std::int64_t axis, int rank) const;
  std::vector<std::int64_t> local_sizes() const;
  bool has_nothing() const;  // whether this rank's part is empty
  std::string text() const;  // "2x3x[0|4|8]x8"
};
bool operator==(const Split& a, const Split& b);  // ignores may_be_reordered
// The same property of any tensor.
bool may_be_reordered(const at::Tensor& tensor);

// Creates a split tensor from this rank's part. Axes from `flat_from` on are
// shown as one, as by flatten(); -1: none.
at::Tensor make_split(at::Tensor local, Split split, int flat_from = -1);

// The following functions accept split tensors only.
void set_local(const at::Tensor& tensor, at::Tensor local);
const Split& split_of(const at::Tensor& tensor);
// Whether the tensor would be a view with gaps in the memory of a single
// process, for which some libtorch kernels compute differently. The parts do
// not show it.
bool may_have_gaps(const at::Tensor& tensor);
void set_gaps(const at::Tensor& tensor);
int flat_from(const at::Tensor& tensor);

// The reason why operations must not use a split tensor: it has hooks, which
// would not be called, or a history that its part does not have. Empty if it
// can be used.
std::string why_unusable(const at::Tensor& tensor);
// Must be called after an operation has changed the part in place.
void refresh_history(const at::Tensor& tensor);

// Throws UsageError unless the device is the CPU; `what` describes the tensor
// for the message.
void check_on_host(const std::string& what, const at::Device& device);

// Cuts a tensor that all ranks have along `first_axis` and the following axes,
// one for each axis of the grid. Needs no communication. Differentiable: each
// rank gets the gradient of the whole tensor, as in a single process, by one
// sum over ranks. Throws UsageError if the tensor has too few axes or is not on
// the CPU.
at::Tensor cut(const at::Tensor& whole, const std::shared_ptr<Tiles>& tiles,
               int first_axis = 2);
// The same, given only this rank's part of a tensor of `sizes`.
at::Tensor from_part(const at::Tensor& part,
                     const std::shared_ptr<Tiles>& tiles,
                     std::vector<std::int64_t> sizes, int first_axis = 2);
}  // namespace sheaf::spatial
