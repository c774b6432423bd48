#include "sheaf/spatial/split/split_tensor.hpp"

#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>

#include "sheaf/base/error.hpp"
#include "sheaf/spatial/split/halo_autograd.hpp"

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

[[noreturn]] void refuse_use(const Split& split, const std::string& use,
                             const std::string& advice) {
  throw UsageError(concat(use, " of a tensor that is split over ranks (",
                          split.text(), "): ", advice));
}

// The autograd history of a split tensor whose part requires a gradient. It is
// reached only if the split tensor is used as an ordinary tensor.
struct SplitHistory : torch::autograd::Node {
  // Incoming gradients have the metadata of `whole`.
  SplitHistory(std::string text, const at::Tensor& whole)
      : text(std::move(text)) {
    add_input_metadata(whole);
  }
  torch::autograd::variable_list apply(
      torch::autograd::variable_list&&) override {
    throw UsageError(concat(
        "backward of a tensor that is split over ranks (", text,
        "): autograd records its parts only; call backward() on a loss or "
        "on sheaf::spatial::gather(tensor), and pass gathered tensors "
        "to functions of your own (torch::autograd::Function)"));
  }
  std::string name() const override { return "SplitTensor"; }

  std::string text;
};

// The dispatch key precedes autograd and has no other use in programs.
class SplitImpl : public c10::TensorImpl {
 public:
  SplitImpl(at::Tensor local, Split split, int flat_from)
      : TensorImpl(c10::DispatchKeySet(kKey), local.dtype(), local.device()),
        local_(std::move(local)),
        split_(std::move(split)),
        flat_from_(flat_from) {
    set_sizes_contiguous(shown_sizes(split_.sizes, flat_from_));
    set_custom_sizes_strides(SizesStridesPolicy::CustomStrides);
    set_storage_access_should_throw();
    set_autograd_meta(std::make_unique<Meta>(*this));
    refresh_history();
  }

  // The history exists as long as the part requires a gradient.
  void refresh_history() {
    if (!meta() || local_.requires_grad() == (history_ != nullptr)) return;
    if (history_)
      history_ = nullptr;
    else
      history_ = std::make_shared<SplitHistory>(
          split_.text(), at::empty({}, local_.options()).expand(sizes()));
    meta()->grad_fn_ = history_;
  }
  torch::autograd::AutogradMeta* meta() const {
    return static_cast<torch::autograd::AutogradMeta*>(autograd_meta());
  }

  // A copy, like that of data() and detach() for ordinary tensors.
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      const c10::VariableVersion&, bool) const override {
    return detached();
  }
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      c10::VariableVersion&&, bool) const override {
    return detached();
  }
  void shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>&) override {
    refuse_use(split_, "set_data()", "create a new tensor instead");
  }

  // Also called while weak references exist, such as that of the retain_grad()
  // hook, which the history owns.
  void release_resources() override {
    TensorImpl::release_resources();
    local_.reset();
    split_ = {};
    history_.reset();
  }

  at::Tensor local_;
  Split split_;
  int flat_from_;
  bool may_have_gaps_ = false;
  std::shared_ptr<SplitHistory> history_;

 protected:
  c10::IntArrayRef strides_custom() const override { refuse_strides(); }
  c10::SymIntArrayRef sym_strides_custom() const override { refuse_strides(); }

 private:
  // Autograd metadata of the wrapper; requires_grad() is that of the part.
  struct Meta : torch::autograd::AutogradMeta {
    explicit Meta(const SplitImpl& owner) : owner(owner) {}
    bool requires_grad() const override { return owner.local_.requires_grad(); }
    const at::Tensor& grad() const override { refuse_gradient(); }
    at::Tensor& mutable_grad() override { refuse_gradient(); }
    [[noreturn]] void refuse_gradient() const {
      refuse_use(owner.split_, "grad()",
                 "use the gradient of the whole tensor, before it is cut");
    }
    const SplitImpl& owner;
  };

  c10::intrusive_ptr<c10::TensorImpl> detached() const {
    auto copy =
        c10::make_intrusive<SplitImpl>(local_.detach(), split_, flat_from_);
    copy->may_have_gaps_ = may_have_gaps_;
    return copy;
  }
  [[noreturn]] void refuse_strides() const {
    refuse_use(split_, "strides",
               "the whole tensor is not in memory; use sizes, or "
               "sheaf::spatial::gather(tensor)");
  }
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

bool may_be_reordered(const at::Tensor& tensor) {
  if (is_split(tensor)) return split_of(tensor).may_be_reordered;
  if (!tensor.defined() || tensor.layout() != at::kStrided) return false;
  std::int64_t outer = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t axis = 0; axis < tensor.dim(); ++axis) {
    if (tensor.size(axis) <= 1) continue;
    if (tensor.stride(axis) > outer) return true;
    outer = tensor.stride(axis);
  }
  return false;
}

void check_on_host(const std::string& what, const at::Device& device) {
  SHEAF_CHECK(device.is_cpu(), what, " is on the device ", device.str(),
              ", but images are cut over ranks in host memory only; "
              "move it to torch::kCPU, or use DataParallel");
}

at::Tensor make_split(at::Tensor local, Split split, int flat_from) {
  check_on_host("a part of a split tensor", local.device());
  SHEAF_ASSERT(local.sizes().vec() == split.local_sizes(), "a part of ",
               local.dim(), " axes for ", split.text());
  if (may_be_reordered(local)) split.may_be_reordered = true;
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

bool may_have_gaps(const at::Tensor& tensor) {
  return impl_of(tensor).may_have_gaps_;
}

void set_gaps(const at::Tensor& tensor) {
  impl_of(tensor).may_have_gaps_ = true;
}

int flat_from(const at::Tensor& tensor) { return impl_of(tensor).flat_from_; }

std::string why_unusable(const at::Tensor& tensor) {
  const SplitImpl& impl = impl_of(tensor);
  const auto* meta = impl.meta();
  if (!meta) return "";  // a result of data() has none
  if (meta->requires_grad_)
    return "set_requires_grad() was called on it; call it on the whole tensor, "
           "before it is cut";
  if (meta->grad_fn_ != impl.history_)
    return "it is the result of a function of your own "
           "(torch::autograd::Function), whose gradient would be lost";
  if (!meta->hooks_.empty() || meta->cpp_hooks_list_ || tensor.retains_grad())
    return "it has a hook (register_hook(), retain_grad()), which would never "
           "be called";
  return "";
}

void refresh_history(const at::Tensor& tensor) {
  impl_of(tensor).refresh_history();
}

namespace {

Split even_split(const std::shared_ptr<Tiles>& tiles,
                 std::vector<std::int64_t> sizes, int first_axis) {
  const halo::Grid& grid = tiles->grid();
  SHEAF_CHECK(first_axis + grid.axes() <= static_cast<int>(sizes.size()),
              "a tensor of ", sizes.size(), " axes cannot be cut by a grid of ",
              grid.text(), " from axis ", first_axis,
              " on; pass it as samples x channels x image");
  Split split{tiles, std::move(sizes), {}, {}};
  std::vector<std::int64_t> shape;
  for (int i = 0; i < grid.axes(); ++i) {
    split.cut_axes.push_back(first_axis + i);
    shape.push_back(split.sizes[static_cast<std::size_t>(first_axis + i)]);
  }
  split.layout = halo::Tiling::balanced(grid, shape);
  return split;
}

}  // namespace

at::Tensor cut(const at::Tensor& whole, const std::shared_ptr<Tiles>& tiles,
               int first_axis) {
  check_on_host("a tensor to be cut", whole.device());
  Split split = even_split(tiles, whole.sizes().vec(), first_axis);
  split.may_be_reordered = may_be_reordered(whole);
  at::Tensor result = make_split(cut_part(whole, split), split);
  if (!whole.is_non_overlapping_and_dense()) set_gaps(result);
  return result;
}

at::Tensor from_part(const at::Tensor& part,
                     const std::shared_ptr<Tiles>& tiles,
                     std::vector<std::int64_t> sizes, int first_axis) {
  Split split = even_split(tiles, std::move(sizes), first_axis);
  SHEAF_CHECK(part.sizes().vec() == split.local_sizes(), "a part of ",
              part.sizes(), " was given for ", split.text(), " on rank ",
              tiles->rank(), "; its sizes must be ",
              at::IntArrayRef(split.local_sizes()));
  return make_split(part, std::move(split));
}

at::Tensor gather(const at::Tensor& split) {
  const at::Tensor whole = gather_parts(local_of(split), split_of(split));
  return whole.view(split.sizes());
}

}  // namespace sheaf::spatial
