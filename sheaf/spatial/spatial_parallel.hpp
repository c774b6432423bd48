#pragma once
// One image over many ranks: each has a tile of it, and of every layer's
// result. For any module, unmodified; see docs/spatial.md.
//
//   sheaf::SpatialParallel model(net, world, {.grid = "2x2"});
//   sheaf::data::Loader loader(images, model.samples(), {.batch_size = 8});
//   for (auto& batch : loader) {
//     loss(model.forward(batch.data), batch.target).backward();
//     optimizer.step();  // all ranks take the same step
//   }
//
// Ranks of a grid hold the same samples; with more ranks than the grid has
// places, groups of ranks hold different samples.

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/parallel/common/tensors_in.hpp"
#include "sheaf/parallel/data/data_parallel.hpp"
#include "sheaf/spatial/ops/placed_filters.hpp"
#include "sheaf/spatial/split/split_tensor.hpp"

namespace sheaf::spatial {

// Which calls of forward() compare the images that ranks of a grid were given:
// the first one in training and the first one in evaluation, all, or none. It
// takes a checksum of the images and one small message.
enum class CheckInputs { kFirst, kEvery, kNever };

struct SpatialOptions {
  std::string grid = "1x1";
  int samples = 0;     // groups of ranks with samples of their own; 0: as fit
  int first_axis = 2;  // that is cut
  parallel::DataParallelOptions data = {};
  // Filters that are not shared are trained by the rank of their place alone,
  // and their gradients not exchanged between the ranks of a grid. A rank then
  // has other places as they were before, until gather_weights().
  bool owns_filters = false;
  CheckInputs check_inputs = CheckInputs::kFirst;
};

// What SpatialParallel does, for any kind of module. Weights' gradients are
// averaged over all ranks, tiles and samples alike (parts.hpp says why that is
// their gradient); filters of places may be an exception. Not thread-safe.
class SpatialParallelCore : public parallel::DataParallelCore {
 public:
  SpatialParallelCore(std::shared_ptr<torch::nn::Module> module,
                      const comm::Group& group, const SpatialOptions& options);

  // The tile of this rank of what the ranks of its grid all have.
  at::Tensor cut(const at::Tensor& whole) const {
    return spatial::cut(whole, tiles_, first_axis_);
  }
  // The same with this rank's tile at hand, of an image of `sizes`.
  at::Tensor from_part(const at::Tensor& part,
                       std::vector<std::int64_t> sizes) const {
    return spatial::from_part(part, tiles_, std::move(sizes), first_axis_);
  }

  // UsageError on all ranks of the grid, naming those that differ, unless they
  // give the same tensors: in type, sizes and bytes; of split ones in type and
  // sizes. All ranks of the grid call it. forward() does, by default in the
  // first step.
  void check_inputs(const std::vector<at::Tensor>& inputs) const;

  // With owns_filters: all weights on all ranks, for files and other uses than
  // forward(). All ranks call these; without it they do nothing more than
  // others would.
  void gather_weights();
  // A tensor of the sizes of a parameter, such as an optimiser's, of which
  // each rank has its places.
  at::Tensor gather(const at::Tensor& parameter, const at::Tensor& own) const;
  // parallel::clip_gradients(), by the norm over all places.
  double clip_gradients(double max_norm);
  void check_weights() const override;

  const std::shared_ptr<Tiles>& tiles() const { return tiles_; }
  // Which of the groups with samples of their own this rank is in.
  int sample_group() const { return sample_group_; }
  // For loaders: the ranks with this rank's place in their grids, one of each
  // group of samples, so that all ranks of a grid get the same samples.
  const comm::Group& samples() const { return samples_; }

 protected:
  // What forward() does with its tensors before the first operation.
  void before_inputs(const std::vector<at::Tensor>& inputs);

 private:
  std::shared_ptr<torch::nn::Module> wrapped_;
  std::shared_ptr<Tiles> tiles_;
  std::unique_ptr<PlacedFilters> placed_;  // null: none
  int first_axis_;
  int sample_group_;
  comm::Group samples_;
  CheckInputs check_inputs_;
  std::array<bool, 2> is_checked_{};  // by whether the module is training
};

template <class Module>
class SpatialParallel : public SpatialParallelCore {
 public:
  SpatialParallel(std::shared_ptr<Module> module, const comm::Group& group,
                  const SpatialOptions& options)
      : SpatialParallelCore(module, group, options),
        module_(std::move(module)) {}
  SpatialParallel(const torch::nn::ModuleHolder<Module>& module,
                  const comm::Group& group, const SpatialOptions& options)
      : SpatialParallel(module.ptr(), group, options) {}

  // Images are whole, the same on all ranks of a grid, or split, and so are
  // tensors among the rest, in tuples and lists, too. What comes out is split
  // where the network's result is an image, else whole.
  template <class... Rest>
  auto forward(const at::Tensor& images, Rest&&... rest) {
    before_forward();
    std::vector<at::Tensor> inputs{images};
    (add_tensors(inputs, rest), ...);
    before_inputs(inputs);
    auto output = module_->forward(is_split(images) ? images : cut(images),
                                   std::forward<Rest>(rest)...);
    after_forward(parallel::tensors_in(output));
    return output;
  }

  Module& operator*() const { return *module_; }
  Module* operator->() const { return module_.get(); }

 private:
  template <class T>
  static void add_tensors(std::vector<at::Tensor>& tensors, const T& value) {
    std::vector<const at::Tensor*> found;
    if constexpr (parallel::holds_tensors<T>())
      parallel::collect_tensors(value, found);
    for (const at::Tensor* one : found) tensors.push_back(*one);
  }

  std::shared_ptr<Module> module_;
};

template <class Holder, class... Rest>
SpatialParallel(const Holder&, Rest&&...)
    -> SpatialParallel<typename Holder::ContainedType>;
template <class Module, class... Rest>
SpatialParallel(std::shared_ptr<Module>, Rest&&...) -> SpatialParallel<Module>;

}  // namespace sheaf::spatial
