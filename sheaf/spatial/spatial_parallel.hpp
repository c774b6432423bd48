#pragma once
// Splits each image over several ranks: each rank has a tile of the image and
// of every layer's result. Works with any unmodified module; see
// docs/explanation/spatial.md.
//
//   sheaf::SpatialParallel model(net, world, {.grid = "2x2"});
//   sheaf::data::Loader loader(images, model.samples(), {.batch_size = 8});
//   for (auto& batch : loader) {
//     loss(model(batch.data), batch.target).backward();
//     optimizer.step();  // all ranks take the same step
//   }
//
// The ranks of a grid hold the same samples. If there are more ranks than
// tiles, there are several grids, which hold different samples.

#include <torch/nn/module.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/parallel/data/data_parallel.hpp"
#include "sheaf/spatial/split/parts.hpp"

namespace sheaf::spatial {

class PlacedFilters;  // ops/placed_filters.hpp
class Tiles;          // split/tiles.hpp

// Which calls of forward() compare the images of the ranks of a grid: the first
// one in training and the first one in evaluation, all, or none. The check
// costs a checksum of the images and one small message.
enum class CheckInputs { kFirst, kEvery, kNever };

struct SpatialOptions {
  std::string grid = "1x1";
  // Number of grids with different samples; 0: as many as fit.
  int samples = 0;
  int first_axis = 2;  // first axis that is cut
  // Filters that are not shared are trained only by the rank that owns their
  // position, and their gradients are not exchanged between the ranks of a
  // grid. The values at other positions are outdated on a rank until
  // gather_weights().
  bool owns_filters = false;
  CheckInputs check_inputs = CheckInputs::kFirst;

  // The options of DataParallelOptions, which documents them. `overlap` also
  // applies to halos, and `device` must be the CPU.
  double bucket_mb = 25;
  double first_bucket_mb = 1;
  bool broadcast_buffers = true;
  bool find_unused_parameters = false;
  bool static_graph = false;
  parallel::Overlap overlap = parallel::Overlap::kAuto;
  std::optional<torch::Device> device = {};
  std::shared_ptr<parallel::BucketExchange> exchange = {};
  TraceWriter* trace = nullptr;
  std::vector<at::Tensor> kept = {};
};

// A rank's part of an image along the axes of the grid.
struct Tile {
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> size;
};

// The part of SpatialParallel that does not depend on the module's type. The
// gradients of weights are averaged over all ranks, both tiles and samples
// (halo_autograd.hpp explains why this is their gradient), except for filters
// that ranks own. Not thread-safe. All ranks of the group must create it
// together. join() requires that all ranks of a grid take the same number of
// steps; with filters that ranks own it is a UsageError. Throws UsageError if
// the grid does not fit the group, or if the module is not on the CPU.
class SpatialParallelCore : public parallel::DataParallelCore {
 public:
  using Options = SpatialOptions;

  SpatialParallelCore(std::shared_ptr<torch::nn::Module> module,
                      const comm::Group& group, const SpatialOptions& options);
  ~SpatialParallelCore() override;

  // Cuts a tensor that all ranks of the grid have; returns this rank's tile as
  // a split tensor.
  at::Tensor cut(const at::Tensor& whole) const;
  // The same, given only this rank's tile of an image of `sizes`.
  at::Tensor from_part(const at::Tensor& part,
                       std::vector<std::int64_t> sizes) const;
  // This rank's tile of images with these sizes along the axes of the grid,
  // such as {rows, columns}.
  Tile tile_of(const std::vector<std::int64_t>& image) const;

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

  // The exchanges of halos, since the last reset_stats(), which also resets
  // stats().
  SpatialStats spatial_stats() const;
  void reset_stats() override;

  const std::shared_ptr<Tiles>& tiles() const { return tiles_; }
  // The index of this rank's grid, among grids with different samples.
  int sample_group() const { return sample_group_; }
  // For loaders: the ranks at this rank's position of each grid, so that all
  // ranks of a grid get the same samples.
  const comm::Group& samples() const { return samples_; }

 protected:
  // Checks the arguments of forward() before the first operation.
  void before_inputs(const std::vector<at::Tensor>& inputs);
  // Runs one forward pass; `call` calls the module.
  template <class Call, class Images, class... Rest>
  auto run(const Call& call, Images&& images, Rest&&... rest) {
    static_assert(std::is_convertible_v<Images, at::Tensor>,
                  "the first argument of forward() must be the images");
    std::vector<at::Tensor> inputs{images};
    (add_tensors(inputs, rest), ...);
    return run_forward([&] {
      before_inputs(inputs);
      return call(is_split(images) ? at::Tensor(images) : cut(images),
                  std::forward<Rest>(rest)...);
    });
  }

 private:
  template <class T>
  static void add_tensors(std::vector<at::Tensor>& tensors, const T& value) {
    std::vector<const at::Tensor*> found;
    if constexpr (parallel::holds_tensors<T>())
      parallel::collect_tensors(value, found);
    for (const at::Tensor* one : found) tensors.push_back(*one);
  }

  std::shared_ptr<torch::nn::Module> wrapped_;
  std::shared_ptr<Tiles> tiles_;
  std::unique_ptr<PlacedFilters> placed_;  // null if there are none
  int first_axis_;
  int sample_group_;
  comm::Group samples_;
  CheckInputs check_inputs_;
  std::array<bool, 2> is_checked_{};  // by module.is_training()
};

// Checks that all ranks have built the same module, then copies rank 0's
// parameters and buffers to all ranks, like DataParallel. The first argument of
// forward() is the images: a whole tensor, equal on all ranks of a grid, or a
// split tensor; the same applies to further tensors, including tuples and
// lists. The result is split if the network returns an image, otherwise whole.
// The model keeps the module and copies of the group.
template <class Module>
class SpatialParallel
    : public parallel::ModuleWrapper<Module, SpatialParallelCore> {
 public:
  using parallel::ModuleWrapper<Module, SpatialParallelCore>::ModuleWrapper;
};

SHEAF_DEDUCE_MODULE(SpatialParallel, SpatialOptions);

}  // namespace sheaf::spatial
