#include "sheaf/data/image_folder.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/data/image.hpp"

namespace sheaf::data {
namespace {

namespace fs = std::filesystem;

bool is_image(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char letter) { return std::tolower(letter); });
  const std::vector<std::string> known = image_endings();
  return std::find(known.begin(), known.end(), ending) != known.end();
}

void check_read(const std::string& folder, const std::error_code& error) {
  if (error)
    throw IoError(
        concat("cannot read the folder ", folder, ": ", error.message()));
}

std::vector<std::string> sorted_folders(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  check_read(folder, error);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> sorted_images(const fs::path& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error))
    if (entry.is_regular_file() && is_image(entry.path()))
      paths.push_back(entry.path().string());
  check_read(folder.string(), error);
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

ImageFolder::ImageFolder(const std::string& folder, ImageFolderOptions options)
    : options_(std::move(options)) {
  names_ = sorted_folders(folder);
  if (names_.empty())
    throw IoError(concat(folder,
                         " holds no folders; an image folder has one "
                         "for each class, with the images in it"));
  for (const std::string& name : names_)
    add_class((fs::path(folder) / name).string());
  const at::Tensor first = image(0, Random());
  shape_ = first.sizes().vec();
  type_ = first.scalar_type();
}

void ImageFolder::add_class(const std::string& folder) {
  const std::vector<std::string> images = sorted_images(folder);
  if (images.empty())
    throw IoError(concat(folder, " holds no image that can be read; endings ",
                         "are ", join(image_endings(), ", ")));
  const auto label = examples_.empty() ? 0 : examples_.back().label + 1;
  for (const std::string& path : images) examples_.push_back({path, label});
}

std::int64_t ImageFolder::size() const {
  return static_cast<std::int64_t>(examples_.size());
}

std::int64_t ImageFolder::classes() const {
  return static_cast<std::int64_t>(names_.size());
}

const std::string& ImageFolder::path_of(std::int64_t index) const {
  check_indices({&index, 1});
  return examples_[static_cast<std::size_t>(index)].path;
}

at::Tensor ImageFolder::image(std::int64_t index, const Random& random) const {
  const at::Tensor pixels = read_image(path_of(index), options_.channels);
  if (!options_.each) return pixels;
  return options_.each->apply(pixels.unsqueeze(0), {&index, 1}, random)
      .squeeze(0);
}

Batch ImageFolder::get(std::span<const std::int64_t> indices,
                       Random& random) const {
  check_indices(indices);
  const auto count = static_cast<std::int64_t>(indices.size());
  Batch batch{{}, at::empty({count}, at::TensorOptions(at::kLong)), 0, count};
  std::vector<at::Tensor> images;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    images.push_back(image(indices[i], random));
    SHEAF_CHECK(images[i].sizes() == images[0].sizes(), path_of(indices[i]),
                " is ", images[i].sizes(), ", ", path_of(indices[0]), " is ",
                images[0].sizes(), "; resize or crop each image to one size ",
                "(ImageFolderOptions::each)");
    batch.target[static_cast<std::int64_t>(i)] =
        examples_[static_cast<std::size_t>(indices[i])].label;
  }
  if (!images.empty()) {
    batch.data = at::stack(images);
    return batch;
  }
  std::vector<std::int64_t> shape = shape_;
  shape.insert(shape.begin(), 0);
  batch.data = at::empty(shape, at::TensorOptions(type_));
  return batch;
}

}  // namespace sheaf::data
