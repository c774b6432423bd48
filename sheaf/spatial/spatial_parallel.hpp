#pragma once
// Splits each image over several ranks: each rank has a tile of the image and
// of every layer's result. Works with any unmodified module; see
// docs/explanation/spatial.md.
//
//   sheaf::SpatialParallel model(net, world, {.grid = "2x2"});
//   sheaf::data::Loader loader(images, model.samples(), {.batch_size = 8});
//   for (auto& batch : loader) {
//     loss(model.forward(batch.data), batch.target).backward();
//     optimizer.step();  // all ranks take the same step
//   }
//
// The ranks of a grid hold the same samples. If there are more ranks than
// tiles, there are several grids, which hold different samples.

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

// Which calls of forward() compare the images of the ranks of a grid: the first
// one in training and the first one in evaluation, all, or none. The check
// costs a checksum of the images and one small message.
enum class CheckInputs { kFirst, kEvery, kNever };

struct SpatialOptions {
  std::string grid = "1x1";
  // Number of grids with different samples; 0: as many as fit.
  int samples = 0;
  int first_axis = 2;  // first axis that is cut
  parallel::DataParallelOptions data = {};
  // Filters that are not shared are trained only by the rank that owns their
  // position, and their gradients are not exchanged between the ranks of a
  // grid. The values at other positions are outdated on a rank until
  // gather_weights().
  bool owns_filters = false;
  CheckInputs check_inputs = CheckInputs::kFirst;
};

// The part of SpatialParallel that does not depend on the module's type. The
// gradients of weights are averaged over all ranks, both tiles and samples
// (halo_autograd.hpp explains why this is their gradient), except for filters
// that ranks own. Not thread-safe. All ranks of the group must create it
// together. Throws UsageError if the grid does not fit the group, or if the
// module is not on the CPU.
class SpatialParallelCore : public parallel::DataParallelCore {
 public:
  SpatialParallelCore(std::shared_ptr<torch::nn::Module> module,
                      const comm::Group& group, const SpatialOptions& options);

  // Cuts a tensor that all ranks of the grid have; returns this rank's tile as
  // a split tensor.
  at::Tensor cut(const at::Tensor& whole) const {
    return spatial::cut(whole, tiles_, first_axis_);
  }
  // The same, given only this rank's tile of an image of `sizes`.
  at::Tensor from_part(const at::Tensor& part,
                       std::vector<std::int64_t> sizes) const {
    return spatial::from_part(part, tiles_, std::move(sizes), first_axis_);
  }

  // Throws UsageError on all ranks of the grid, with the ranks that differ,
  // unless all have the same tensors: whole tensors in type, sizes and bytes,
  // split tensors in type and sizes. All ranks of the grid must call it.
  // forward() calls it, by default in the first step.
  void check_inputs(const std::vector<at::Tensor>& inputs) const;

  // With owns_filters: collects all weights on all ranks, for files and for
  // uses other than forward(). All ranks must call these functions; without
  // owns_filters, gather_weights() does nothing and the others behave as in
  // data parallelism.
  void gather_weights();
  // Gathers a tensor with the sizes of a parameter, such as optimizer state, of
  // which each rank has its own positions.
  at::Tensor gather(const at::Tensor& parameter, const at::Tensor& own) const;
  // parallel::clip_gradients() with the norm over all positions.
  double clip_gradients(double max_norm);
  void check_weights() const override;

  const std::shared_ptr<Tiles>& tiles() const { return tiles_; }
  // The index of this rank's grid, among grids with different samples.
  int sample_group() const { return sample_group_; }
  // For loaders: the ranks at this rank's position of each grid, so that all
  // ranks of a grid get the same samples.
  const comm::Group& samples() const { return samples_; }

 protected:
  // Checks the arguments of forward() before the first operation.
  void before_inputs(const std::vector<at::Tensor>& inputs);

 private:
  std::shared_ptr<torch::nn::Module> wrapped_;
  std::shared_ptr<Tiles> tiles_;
  std::unique_ptr<PlacedFilters> placed_;  // null if there are none
  int first_axis_;
  int sample_group_;
  comm::Group samples_;
  CheckInputs check_inputs_;
  std::array<bool, 2> is_checked_{};  // by module.is_training()
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

  // `images` is a whole tensor, equal on all ranks of a grid, or a split
  // tensor; the same applies to tensors in `rest`, including tuples and lists.
  // The result is split if the network returns an image, otherwise whole. All
  // ranks must call it.
  template <class... Rest>
  auto forward(const at::Tensor& images, Rest&&... rest) {
    std::vector<at::Tensor> inputs{images};
    (add_tensors(inputs, rest), ...);
    return run_forward([&] {
      before_inputs(inputs);
      return module_->forward(is_split(images) ? images : cut(images),
                              std::forward<Rest>(rest)...);
    });
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
