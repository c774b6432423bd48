#include "sheaf/spatial/spatial_parallel.hpp"

#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/gradient_hooks.hpp"
#include "sheaf/parallel/gradients.hpp"
#include "sheaf/parallel/homes.hpp"

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
      " ranks; their number must be that of the grid's places, times "
      "the groups of samples");
  return wanted;
}

bool has_places(const SpatialOptions& options) {
  return options.owns_filters && halo::Grid::parse(options.grid).ranks() > 1;
}

parallel::DataParallelOptions with_kept(
    const std::shared_ptr<torch::nn::Module>& module,
    const SpatialOptions& options) {
  parallel::DataParallelOptions result = options.data;
  if (!module || !has_places(options)) return result;
  for (const auto& [name, parameter] : local_filters(*module))
    result.kept.push_back(parameter);
  return result;
}

}  // namespace

SpatialParallelCore::SpatialParallelCore(
    std::shared_ptr<torch::nn::Module> module, const comm::Group& group,
    const SpatialOptions& options)
    : DataParallelCore(module, group, with_kept(module, options)),
      wrapped_(module),
      first_axis_(options.first_axis) {
  parallel::check_like_homes(group, module->parameters(), "SpatialParallel");
  const halo::Grid grid = halo::Grid::parse(options.grid);
  const int samples = check_samples(group, grid, options.samples);
  sample_group_ = group.rank() / grid.ranks();
  tiles_ = std::make_shared<Tiles>(
      samples == 1 ? group : group.split(sample_group_, group.rank()), grid,
      options.data.overlap);
  NamedTensors filters;
  if (has_places(options)) filters = local_filters(*module);
  if (filters.empty()) return;
  placed_ = std::make_unique<PlacedFilters>(std::move(filters), tiles_, group);
  set_before_pass([this] {
    parallel::at_end_of_backward([this] { placed_->end_pass(); });
  });
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
