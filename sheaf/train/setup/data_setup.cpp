#include "sheaf/train/setup/data_setup.hpp"

#include <algorithm>
#include <numeric>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/data/catalog/catalog.hpp"
#include "sheaf/data/dataset/synthetic.hpp"
#include "sheaf/halo/tiling.hpp"
#include "sheaf/train/config/arguments.hpp"

namespace sheaf::train {
namespace {

using data::Dataset;
using data::TransformPtr;

struct Size {
  std::int64_t height;
  std::int64_t width;
};

// Reads "size: 32" as a square, else height and width.
Size size_of(ArgumentReader& reader) {
  if (reader.has("size")) return {reader.whole("size"), reader.whole("size")};
  return {reader.whole("height"), reader.whole("width")};
}

struct TransformKind {
  std::string_view name;
  bool draws_lots;
  TransformPtr (*make)(ArgumentReader& reader);
};

const TransformKind kTransforms[] = {
    {"to_float", false, [](ArgumentReader&) { return data::to_float(); }},
    {"normalize", false,
     [](ArgumentReader& reader) {
       return data::normalize(reader.numbers("mean"), reader.numbers("std"));
     }},
    {"pad", false,
     [](ArgumentReader& reader) {
       return data::pad(reader.whole("pixels"), reader.number("value", 0));
     }},
    {"center_crop", false,
     [](ArgumentReader& reader) {
       const Size size = size_of(reader);
       return data::center_crop(size.height, size.width);
     }},
    {"random_crop", true,
     [](ArgumentReader& reader) {
       const Size size = size_of(reader);
       return data::random_crop(size.height, size.width,
                                reader.whole("padding", 0));
     }},
    {"horizontal_flip", true,
     [](ArgumentReader& reader) {
       return data::horizontal_flip(reader.number("probability", 0.5));
     }},
    {"resize", false,
     [](ArgumentReader& reader) {
       const Size size = size_of(reader);
       return data::resize(size.height, size.width);
     }},
    {"resize_shorter", false,
     [](ArgumentReader& reader) {
       return data::resize_shorter(reader.whole("size"));
     }},
};

const TransformKind& kind_of(const std::string& name,
                             const std::string& where) {
  std::vector<std::string_view> names;
  for (const TransformKind& kind : kTransforms) {
    if (kind.name == name) return kind;
    names.push_back(kind.name);
  }
  throw UsageError(concat(where, "unknown transform '", name, "'",
                          did_you_mean(name, names),
                          "; known transforms: ", join(names, ", ")));
}

TransformPtr make_transform(const std::vector<Item>& items,
                            const std::string& where, bool with_lots) {
  std::vector<TransformPtr> transforms;
  for (const Item& item : items) {
    const TransformKind& kind = kind_of(item.name, where);
    if (kind.draws_lots && !with_lots) continue;
    ArgumentReader reader(item.arguments, where + item.name);
    transforms.push_back(kind.make(reader));
    reader.finish();
  }
  return transforms.empty() ? nullptr : data::compose(std::move(transforms));
}

struct Pair {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
};

Pair synthetic(const RunConfig& config) {
  ArgumentReader reader(config.data.arguments,
                        config.where("data.arguments") + "synthetic data");
  data::SyntheticOptions options;
  options.examples = reader.whole("examples", options.examples);
  options.classes = reader.whole("classes", options.classes);
  options.shape = reader.wholes("shape", options.shape);
  options.noise = reader.number("noise", options.noise);
  options.is_tokens = reader.whole("tokens", 0) != 0;
  options.seed = static_cast<std::uint64_t>(reader.whole("seed", 0));
  data::SyntheticOptions test = options;
  test.examples = reader.whole("test_examples", options.examples / 5);
  test.first = options.examples;
  reader.finish();
  return {std::make_shared<data::SyntheticDataset>(options),
          std::make_shared<data::SyntheticDataset>(test)};
}

Pair open_pair(const RunConfig& config) {
  const DataConfig& data = config.data;
  if (data.name == "synthetic") return synthetic(config);
  SHEAF_CHECK(data.arguments.empty(), config.where("data.arguments"),
              "data.arguments apply to synthetic data only; '", data.name,
              "' takes no arguments");
  return {data::open_dataset(data.name, "train", data.folder),
          data::open_dataset(data.name, "test", data.folder)};
}

// Describes the first class that differs; empty if none does.
std::string class_difference(const std::vector<std::string>& names,
                             const std::vector<std::string>& others) {
  for (std::size_t i = 0; i < std::max(names.size(), others.size()); ++i) {
    const auto name = [i](const std::vector<std::string>& all) {
      return i < all.size() ? concat("'", all[i], "'") : std::string("none");
    };
    if (name(names) != name(others))
      return concat("class ", i, " is ", name(names), " in one and ",
                    name(others), " in the other");
  }
  return "";
}

void check_classes_of(const char* what, const Dataset& train,
                      const Dataset* set) {
  if (!set) return;
  const std::vector<std::string> names = train.class_names();
  const std::vector<std::string> others = set->class_names();
  if (!names.empty() && !others.empty()) {
    const std::string difference = class_difference(names, others);
    SHEAF_CHECK(difference.empty(), "the training set and the ", what,
                " set have different classes: ", difference,
                "; open both with the training set's class names "
                "(ImageFolderOptions::class_names)");
  }
  SHEAF_CHECK(set->classes() <= train.classes(), "the ", what, " set has ",
              set->classes(), " classes, but the training set has only ",
              train.classes(), ": labels from ", train.classes(),
              " up are never trained; correct the labels of one of them");
}

// The last rows of the training set are held out for validation.
void cut(DataSets& sets, const RunConfig& config) {
  const std::int64_t all = sets.train->size();
  const std::int64_t held_out = config.data.validation;
  SHEAF_CHECK(held_out < all, config.where("data.validation"),
              "data.validation is ", held_out, ", but the training set has ",
              all, " examples; reduce it so that some remain for training");
  const std::int64_t left = all - held_out;
  const std::int64_t limit = config.data.limit;
  const std::shared_ptr<const Dataset> whole = sets.train;
  if (held_out > 0)
    sets.validation = std::make_shared<Slice>(whole, left, held_out);
  const std::int64_t used = limit > 0 ? std::min(limit, left) : left;
  if (used < all) sets.train = std::make_shared<Slice>(whole, 0, used);
}

}  // namespace

Slice::Slice(std::shared_ptr<const Dataset> whole, std::int64_t first,
             std::int64_t size)
    : whole_(std::move(whole)), first_(first), size_(size) {}

std::vector<std::int64_t> Slice::shifted(
    std::span<const std::int64_t> indices) const {
  check_indices(indices);
  std::vector<std::int64_t> result(indices.begin(), indices.end());
  for (std::int64_t& index : result) index += first_;
  return result;
}

data::Batch Slice::get(std::span<const std::int64_t> indices,
                       data::Random& random) const {
  return whole_->get(shifted(indices), random);
}

data::Batch Slice::get_boxes(std::span<const std::int64_t> indices,
                             const data::Boxes& boxes,
                             data::Random& random) const {
  return whole_->get_boxes(shifted(indices), boxes, random);
}

data::Sites sites_by_class(const Dataset& dataset, int ranks) {
  const std::int64_t classes = dataset.classes();
  SHEAF_CHECK(classes >= ranks, "data.sites is by_class, but ", ranks,
              " ranks cannot share ", classes,
              " classes; use fewer ranks, or sites: shared");
  auto sites = std::make_shared<std::vector<int>>();
  constexpr std::int64_t kSome = 4096;
  data::Random random(0);
  while (static_cast<std::int64_t>(sites->size()) < dataset.size()) {
    const auto first = static_cast<std::int64_t>(sites->size());
    std::vector<std::int64_t> some(
        static_cast<std::size_t>(std::min(kSome, dataset.size() - first)));
    std::iota(some.begin(), some.end(), first);
    const at::Tensor target =
        dataset.get(some, random).target.to(torch::kLong).contiguous();
    const auto* label = target.data_ptr<std::int64_t>();
    for (std::size_t i = 0; i < some.size(); ++i)
      sites->push_back(static_cast<int>(label[i] * ranks / classes));
  }
  return sites;
}

void check_classes(const DataSets& sets) {
  check_classes_of("validation", *sets.train, sets.validation.get());
  check_classes_of("test", *sets.train, sets.test.get());
}

void check_classes(const std::vector<std::string>& checkpoint,
                   const Dataset& train) {
  const std::vector<std::string> names = train.class_names();
  if (checkpoint.empty() || names.empty()) return;
  const std::string difference = class_difference(checkpoint, names);
  SHEAF_CHECK(difference.empty(), "the checkpoint and the training set have ",
              "different classes: ", difference,
              "; resume with the data that the run was started with, or start ",
              "a new run");
}

DataSets open_data(const RunConfig& config) {
  const Pair pair = open_pair(config);
  DataSets sets{pair.train, nullptr, pair.test, nullptr, nullptr};
  check_classes(sets);
  cut(sets, config);
  const DataConfig& data = config.data;
  const std::string where = config.where("data.transforms");
  sets.transform = make_transform(data.transforms, where, /*with_lots=*/true);
  sets.evaluation_transform =
      !data.evaluation_transforms.empty()
          ? make_transform(data.evaluation_transforms,
                           config.where("data.evaluation_transforms"), true)
          : make_transform(data.transforms, where, /*with_lots=*/false);
  return sets;
}

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

// The loader options that training and evaluation have in common.
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
              " positions, but there are ", group.size(),
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
