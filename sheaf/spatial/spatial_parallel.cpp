#include "sheaf/spatial/spatial_parallel.hpp"

#include "sheaf/base/error.hpp"

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

}  // namespace

SpatialParallelCore::SpatialParallelCore(
    std::shared_ptr<torch::nn::Module> module, const comm::Group& group,
    const SpatialOptions& options)
    : DataParallelCore(std::move(module), group, options.data),
      first_axis_(options.first_axis) {
  const halo::Grid grid = halo::Grid::parse(options.grid);
  const int samples = check_samples(group, grid, options.samples);
  sample_group_ = group.rank() / grid.ranks();
  tiles_ = std::make_shared<Tiles>(
      samples == 1 ? group : group.split(sample_group_, group.rank()), grid,
      options.data.overlap);
}

}  // namespace sheaf::spatial
