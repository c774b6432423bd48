#include "sheaf/train/setup/loader_setup.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/halo/tiling.hpp"

namespace sheaf::train {
namespace {

// Returns the function that gives this rank's tile of an image; null if images
// are not split.
data::TileOf tile_of(const RunConfig& config, const comm::Group& group) {
  if (!splits_images(config.parallel.strategy)) return nullptr;
  const halo::Grid grid = halo::Grid::parse(config.parallel.grid);
  const int place = group.rank() % grid.ranks();
  return [grid, place](const data::Sizes& image) {
    SHEAF_CHECK(grid.axes() <= static_cast<int>(image.size()), "examples with ",
                image.size(),
                " axes besides channels cannot be split over a grid of ",
                grid.text(), "; provide them as channels x image");
    const auto layout = halo::Tiling::balanced(
        grid, {image.begin(), image.begin() + grid.axes()});
    const halo::Box own = layout.box_of(place);
    data::Box box;
    for (int i = 0; i < grid.axes(); ++i) {
      box.begin[static_cast<std::size_t>(i)] = own[i].begin;
      box.size.push_back(own[i].size());
    }
    return box;
  };
}

// Whether the module has layers that reject a single row: BatchNorm1d has one
// value per channel and row, layers for images have many.
bool normalizes_vectors(const torch::nn::Module& module) {
  const auto modules = module.modules();
  return std::any_of(modules.begin(), modules.end(), [](const auto& one) {
    return one->template as<torch::nn::BatchNorm1d>() != nullptr;
  });
}

// For training and evaluation alike.
data::LoaderOptions common_options(const RunConfig& config,
                                   const comm::Group& group) {
  data::LoaderOptions options;
  options.global_batch = config.global_batch;
  options.workers = config.data.workers;
  options.seed = static_cast<std::uint64_t>(config.seed);
  options.shuffle = false;
  if (config.shares.size() > 1) options.shares = config.shares;
  options.pin_memory = config.device_of(group.rank()) == "cuda";
  options.tile = tile_of(config, group);
  return options;
}

}  // namespace

comm::Group sample_ranks(const RunConfig& config, const comm::Group& group) {
  if (!splits_images(config.parallel.strategy)) return group;
  const int places = halo::Grid::parse(config.parallel.grid).ranks();
  SHEAF_CHECK(group.size() % places == 0, config.where("parallel.grid"),
              "parallel.grid ", config.parallel.grid, " has ", places,
              " places, but there are ", group.size(),
              " ranks; start a multiple of that, such as -n ", places);
  return group.split(group.rank() % places, group.rank());
}

Loaders open_loaders(const RunConfig& config, const DataSets& sets,
                     const torch::nn::Module& module,
                     const comm::Group& samples, const comm::Group& group) {
  data::LoaderOptions training = common_options(config, group);
  data::LoaderOptions evaluation = training;
  training.shuffle = true;
  if (config.data.sites == "by_class")
    training.sites = sites_by_class(*sets.train, samples.size());
  training.avoids_single_rows =
      config.parallel.sync_batchnorm && normalizes_vectors(module);
  training.transform = sets.transform;
  evaluation.transform = sets.evaluation_transform;
  SHEAF_CHECK(sets.train->size() > 0, "the training set is empty");
  Loaders loaders;
  loaders.train.emplace(sets.train, samples, training);
  if (sets.validation)
    loaders.validation.emplace(sets.validation, samples, evaluation);
  if (sets.test) loaders.test.emplace(sets.test, samples, evaluation);
  return loaders;
}

}  // namespace sheaf::train
