#include "sheaf/spatial/spatial_parallel.hpp"

#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/common/gradient_hooks.hpp"
#include "sheaf/parallel/common/gradients.hpp"
#include "sheaf/parallel/common/parameter_placement.hpp"
#include "sheaf/parallel/data/common_options.hpp"
#include "sheaf/spatial/input_check.hpp"
#include "sheaf/spatial/ops/placed_filters.hpp"
#include "sheaf/spatial/split/split_tensor.hpp"

namespace sheaf::spatial {
namespace {

int check_samples(const comm::Group& group, const halo::Grid& grid,
                  int samples) {
  const int wanted = samples > 0 ? samples : group.size() / grid.ranks();
  SHEAF_CHECK(
      wanted > 0 && wanted * grid.ranks() == group.size(), "a grid of ",
      grid.text(),
      samples > 0 ? concat(" for ", samples, " samples") : std::string(),
      " does not fit ", group.size(),
      " ranks; the number of ranks must be the number of tiles of the grid "
      "times the number of sample groups");
  return wanted;
}

// Halos are copied from and to host memory.
void check_module_on_host(const torch::nn::Module& module) {
  for (const auto& item : module.named_parameters())
    check_on_host("the parameter " + item.key(), item.value().device());
  for (const auto& item : module.named_buffers())
    if (item.value().defined())
      check_on_host("the buffer " + item.key(), item.value().device());
}

bool has_places(const SpatialOptions& options) {
  return options.owns_filters && halo::Grid::parse(options.grid).ranks() > 1;
}

// Runs the checks that must come before the base class is constructed, first
// those that compare ranks.
parallel::DataParallelOptions with_kept(
    const std::shared_ptr<torch::nn::Module>& module, const comm::Group& group,
    const SpatialOptions& options) {
  parallel::DataParallelOptions result = parallel::common_options(options);
  if (module) {
    parallel::check_same_placement(group, module->parameters(),
                                   "SpatialParallel");
    check_module_on_host(*module);
  }
  if (result.device) check_on_host("SpatialOptions::device", *result.device);
  if (!module || !has_places(options)) return result;
  for (const auto& [name, parameter] : local_filters(*module))
    result.kept.push_back(parameter);
  return result;
}

}  // namespace

SpatialParallelCore::SpatialParallelCore(
    std::shared_ptr<torch::nn::Module> module, const comm::Group& group,
    const SpatialOptions& options)
    : DataParallelCore(module, group, with_kept(module, group, options)),
      wrapped_(module),
      first_axis_(options.first_axis),
      check_inputs_(options.check_inputs) {
  const halo::Grid grid = halo::Grid::parse(options.grid);
  const int samples = check_samples(group, grid, options.samples);
  sample_group_ = group.rank() / grid.ranks();
  tiles_ = std::make_shared<Tiles>(
      samples == 1 ? group : group.split(sample_group_, group.rank()), grid,
      options.overlap);
  samples_ = group.split(tiles_->rank(), group.rank());
  NamedTensors filters;
  if (has_places(options)) filters = local_filters(*module);
  if (filters.empty()) return;
  placed_ = std::make_unique<PlacedFilters>(std::move(filters), tiles_, group);
  set_before_pass([this] {
    parallel::at_end_of_backward([this] { placed_->end_pass(); });
  });
}

SpatialParallelCore::~SpatialParallelCore() = default;

at::Tensor SpatialParallelCore::cut(const at::Tensor& whole) const {
  return spatial::cut(whole, tiles_, first_axis_);
}

at::Tensor SpatialParallelCore::from_part(
    const at::Tensor& part, std::vector<std::int64_t> sizes) const {
  return spatial::from_part(part, tiles_, std::move(sizes), first_axis_);
}

Tile SpatialParallelCore::tile_of(
    const std::vector<std::int64_t>& image) const {
  const halo::Box box =
      halo::Tiling::balanced(tiles_->grid(), image).box_of(tiles_->rank());
  Tile tile;
  for (int axis = 0; axis < tiles_->grid().axes(); ++axis) {
    tile.begin.push_back(box[axis].begin);
    tile.size.push_back(box[axis].size());
  }
  return tile;
}

SpatialStats SpatialParallelCore::spatial_stats() const {
  return tiles_->stats();
}

void SpatialParallelCore::reset_stats() {
  DataParallelCore::reset_stats();
  tiles_->reset_stats();
}

void SpatialParallelCore::check_inputs(
    const std::vector<at::Tensor>& inputs) const {
  check_same_inputs(
      {.grid = tiles_->group(),
       .first_rank = sample_group_ * tiles_->group().size(),
       .advice = "pass the group of samples to the loader, "
                 "data::Loader(dataset, model.samples(), options), or tiles to "
                 "from_part()"},
      inputs);
}

void SpatialParallelCore::before_inputs(const std::vector<at::Tensor>& inputs) {
  bool& is_checked = is_checked_[wrapped_->is_training() ? 1 : 0];
  const bool is_wanted = check_inputs_ == CheckInputs::kEvery ||
                         (check_inputs_ == CheckInputs::kFirst && !is_checked);
  if (is_wanted) check_inputs(inputs);
  is_checked = true;
}

void SpatialParallelCore::gather_weights() {
  if (placed_) placed_->gather_weights();
}

at::Tensor SpatialParallelCore::gather(const at::Tensor& parameter,
                                       const at::Tensor& own) const {
  return placed_ && placed_->has(parameter) ? placed_->gather(parameter, own)
                                            : own;
}

double SpatialParallelCore::clip_gradients(double max_norm) {
  if (!placed_) return parallel::clip_gradients(*wrapped_, max_norm);
  std::vector<at::Tensor> alike;
  for (const at::Tensor& parameter : wrapped_->parameters())
    if (!placed_->has(parameter)) alike.push_back(parameter);
  const double norm = std::sqrt(parallel::square_of_gradients(alike) +
                                placed_->square_of_gradients());
  parallel::scale_gradients(*wrapped_, norm, max_norm);
  return norm;
}

void SpatialParallelCore::check_weights() const {
  DataParallelCore::check_weights();
  if (placed_) placed_->check_weights();
}

}  // namespace sheaf::spatial
