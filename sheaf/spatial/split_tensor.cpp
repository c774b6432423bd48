#include "sheaf/spatial/split_tensor.hpp"

#include <c10/core/TensorImpl.h>
#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/spatial/parts.hpp"

namespace sheaf::spatial {
namespace {

constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

std::vector<std::int64_t> shown_sizes(const std::vector<std::int64_t>& sizes,
                                      int flat_from) {
  if (flat_from < 0) return sizes;
  std::vector<std::int64_t> shown(sizes.begin(), sizes.begin() + flat_from);
  shown.push_back(1);
  for (auto at = sizes.begin() + flat_from; at != sizes.end(); ++at)
    shown.back() *= *at;
  return shown;
}

// The key goes before autograd, and nothing else uses it in a program.
class SplitImpl : public c10::TensorImpl {
 public:
  SplitImpl(at::Tensor local, Split split, int flat_from)
      : TensorImpl(c10::DispatchKeySet(kKey), local.dtype(), local.device()),
        local_(std::move(local)),
        split_(std::move(split)),
        flat_from_(flat_from) {
    set_sizes_contiguous(shown_sizes(split_.sizes, flat_from_));
    set_storage_access_should_throw();
  }

  at::Tensor local_;
  Split split_;
  int flat_from_;
};

SplitImpl& impl_of(const at::Tensor& tensor) {
  SHEAF_ASSERT(is_split(tensor), "not a split tensor");
  return static_cast<SplitImpl&>(*tensor.unsafeGetTensorImpl());
}

}  // namespace

int Split::grid_axis(std::int64_t axis) const {
  for (std::size_t i = 0; i < cut_axes.size(); ++i)
    if (cut_axes[i] == axis) return static_cast<int>(i);
  return -1;
}

halo::Interval Split::interval(std::int64_t axis) const {
  return interval(axis, tiles->rank());
}

halo::Interval Split::interval(std::int64_t axis, int rank) const {
  const int cut = grid_axis(axis);
  if (cut < 0) return {0, sizes[static_cast<std::size_t>(axis)]};
  return layout.box_of(rank)[cut];
}

std::vector<std::int64_t> Split::local_sizes() const {
  std::vector<std::int64_t> result;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis)
    result.push_back(interval(static_cast<std::int64_t>(axis)).size());
  return result;
}

bool Split::has_nothing() const {
  const auto sizes = local_sizes();
  return std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
}

std::string Split::text() const {
  std::string text;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    const int cut = grid_axis(static_cast<std::int64_t>(axis));
    text += concat(axis > 0 ? "x" : "",
                   cut < 0 ? std::to_string(sizes[axis])
                           : "[" + layout.cuts(cut).text() + "]");
  }
  return text;
}

bool operator==(const Split& a, const Split& b) {
  return a.tiles == b.tiles && a.sizes == b.sizes && a.cut_axes == b.cut_axes &&
         a.layout == b.layout;
}

at::Tensor make_split(at::Tensor local, Split split, int flat_from) {
  SHEAF_ASSERT(local.sizes().vec() == split.local_sizes(), "a part of ",
               local.dim(), " axes for ", split.text());
  return at::Tensor(c10::make_intrusive<SplitImpl>(
      std::move(local), std::move(split), flat_from));
}

bool is_split(const at::Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->key_set().has(kKey);
}

const at::Tensor& local_of(const at::Tensor& tensor) {
  return impl_of(tensor).local_;
}

void set_local(const at::Tensor& tensor, at::Tensor local) {
  impl_of(tensor).local_ = std::move(local);
}

const Split& split_of(const at::Tensor& tensor) {
  return impl_of(tensor).split_;
}

int flat_from(const at::Tensor& tensor) { return impl_of(tensor).flat_from_; }

namespace {

Split even_split(const std::shared_ptr<Tiles>& tiles,
                 std::vector<std::int64_t> sizes, int first_axis) {
  const halo::Grid& grid = tiles->grid();
  SHEAF_CHECK(first_axis + grid.axes() <= static_cast<int>(sizes.size()),
              "a tensor of ", sizes.size(), " axes cannot be cut by a grid of ",
              grid.text(), " from axis ", first_axis,
              " on; give it as samples x channels x image");
  Split split{tiles, std::move(sizes), {}, {}};
  std::vector<std::int64_t> shape;
  for (int i = 0; i < grid.axes(); ++i) {
    split.cut_axes.push_back(first_axis + i);
    shape.push_back(split.sizes[static_cast<std::size_t>(first_axis + i)]);
  }
  split.layout = halo::Layout::balanced(grid, shape);
  return split;
}

}  // namespace

at::Tensor cut(const at::Tensor& whole, const std::shared_ptr<Tiles>& tiles,
               int first_axis) {
  Split split = even_split(tiles, whole.sizes().vec(), first_axis);
  at::Tensor part = own_part(whole, split);
  return make_split(std::move(part), std::move(split));
}

at::Tensor from_part(const at::Tensor& part,
                     const std::shared_ptr<Tiles>& tiles,
                     std::vector<std::int64_t> sizes, int first_axis) {
  Split split = even_split(tiles, std::move(sizes), first_axis);
  SHEAF_CHECK(part.sizes().vec() == split.local_sizes(), "a part of ",
              part.sizes(), " was given for ", split.text(), " on rank ",
              tiles->rank(), "; it must be of ",
              at::IntArrayRef(split.local_sizes()));
  return make_split(part, std::move(split));
}

at::Tensor gather(const at::Tensor& split) {
  const at::Tensor whole = gather_parts(local_of(split), split_of(split));
  return whole.view(split.sizes());
}

}  // namespace sheaf::spatial
