#include "sheaf/data/formats/image_folder.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/formats/bytes/memory.hpp"

namespace sheaf::data {
namespace {

namespace fs = std::filesystem;

// In the memory of the pixels: [height, width, channels].
at::Tensor pixel_tensor(const formats::Pixels& pixels) {
  return at::from_blob(
      pixels.samples.get(), {pixels.height, pixels.width, pixels.channels},
      [samples = pixels.samples](void*) mutable { samples.reset(); },
      at::TensorOptions(at::kByte));
}

// Single-threaded: the loader's workers already use the cores.
at::Tensor luma_of(const at::Tensor& pixels) {
  at::Tensor gray = at::empty({1, pixels.size(0), pixels.size(1)},
                              at::TensorOptions(at::kByte));
  const auto* from = pixels.data_ptr<std::uint8_t>();
  auto* to = gray.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < gray.numel(); ++i, from += 3)
    to[i] = static_cast<std::uint8_t>(
        (from[0] * 19595 + from[1] * 38470 + from[2] * 7471 + 0x8000) >> 16);
  return gray;
}

// Bytes [height, width, 1 or 3] to bytes [channels, height, width].
at::Tensor with_channels(const at::Tensor& pixels, int channels) {
  if (pixels.size(2) == 3 && channels == 1) return luma_of(pixels);
  const at::Tensor planes = pixels.permute({2, 0, 1});
  return planes.expand({channels, -1, -1}).contiguous();
}

bool is_image(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char letter) { return std::tolower(letter); });
  const std::vector<std::string> known = image_endings();
  return std::find(known.begin(), known.end(), ending) != known.end();
}

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

// The entries of a folder that are not hidden, in byte order of their names.
std::vector<fs::path> visible_entries(const std::string& folder) {
  auto entries = entries_of(folder);
  std::erase_if(entries, is_hidden);
  return entries;
}

bool is_folder(const fs::path& path) {
  std::error_code none;
  return fs::is_directory(path, none);
}

fs::path real_path(const fs::path& folder) {
  std::error_code error;
  fs::path real = fs::canonical(folder, error);
  if (error)
    throw IoError(concat("cannot read the folder ", folder.string(), ": ",
                         error.message()));
  return real;
}

// Whether `inner` is `outer` or is below it. Both are canonical paths.
bool is_within(const fs::path& inner, const fs::path& outer) {
  const std::string& text = inner.native();
  const std::string& begin = outer.native();
  return text.starts_with(begin) &&
         (text.size() == begin.size() || begin.ends_with('/') ||
          text[begin.size()] == '/');
}

// Whether `folder` is a link to one of its parent folders, which is logged.
// Following it would add images of other classes or recurse forever. `real` is
// its canonical path, `above` are those of the folders above it.
bool leads_back(const fs::path& folder, const fs::path& real,
                const std::vector<fs::path>& above) {
  if (std::none_of(above.begin(), above.end(),
                   [&](const fs::path& one) { return is_within(one, real); }))
    return false;
  log_warn("{} is a link to {}, a folder that contains it; skipped",
           folder.string(), real.string());
  return true;
}

// Opening a pipe or a device could wait forever.
void check_regular(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return;
  throw IoError(concat(path.string(), " is not a file, ",
                       fs::is_symlink(path, error)
                           ? "but a dangling link"
                           : "although its extension is that of an image",
                       "; remove or repair it"));
}

// Collects the images of a class.
class ImageSearch {
 public:
  // In byte order of their paths.
  std::vector<std::string> run(const fs::path& folder) {
    above_ = {real_path(folder.parent_path())};
    add(folder);
    std::sort(images_.begin(), images_.end());
    return std::move(images_);
  }

 private:
  void add(const fs::path& folder) {
    const fs::path real = real_path(folder);
    if (leads_back(folder, real, above_)) return;
    count_path(folder, real);
    above_.push_back(real);
    for (const fs::path& path : visible_entries(folder.string())) {
      if (is_folder(path)) {
        add(path);
      } else if (is_image(path)) {
        check_regular(path);
        images_.push_back(path.string());
      }
    }
    above_.pop_back();
  }

  // Two links in each of 30 folders to the next one make a billion paths.
  void count_path(const fs::path& folder, const fs::path& real) {
    constexpr int kMostPaths = 100;
    if (++paths_[real.native()] > kMostPaths)
      throw IoError(concat(folder.string(), " is one of more than ", kMostPaths,
                           " paths to the folder ", real.string(),
                           ", whose images would count as often; remove links "
                           "to it"));
  }

  std::vector<fs::path> above_;
  std::map<std::string, int> paths_;
  std::vector<std::string> images_;
};

std::int64_t label_of(const std::vector<std::string>& names,
                      const std::string& name, const std::string& folder) {
  const auto found = std::find(names.begin(), names.end(), name);
  SHEAF_CHECK(found != names.end(), folder, " has a folder '", name,
              "', which is not one of the ", names.size(),
              " classes of the training data (", join(names, ", "),
              "); rename or remove it");
  return found - names.begin();
}

}  // namespace

at::Tensor read_image(const std::string& path, int channels,
                      const formats::ImageLimits& limits) {
  SHEAF_CHECK(channels == 1 || channels == 3, "cannot read an image with ",
              channels, " channels; use 1 (gray) or 3 (color)");
  const formats::Pixels pixels =
      formats::decode_image(formats::read_bytes(path), limits);
  formats::check_memory(
      path, "the image",
      static_cast<std::uint64_t>(pixels.height * pixels.width * channels));
  return with_channels(pixel_tensor(pixels), channels);
}

std::vector<std::string> image_endings() { return {".png", ".jpg", ".jpeg"}; }

std::vector<std::string> class_folders(const std::string& folder) {
  const std::vector<fs::path> entries = visible_entries(folder);
  const std::vector<fs::path> above{real_path(folder)};
  std::vector<std::string> names;
  for (const fs::path& path : entries)
    if (is_folder(path) && !leads_back(path, real_path(path), above))
      names.push_back(path.filename().string());
  return names;
}

ImageFolder::ImageFolder(const std::string& folder, ImageFolderOptions options)
    : options_(std::move(options)) {
  const std::vector<std::string> folders = class_folders(folder);
  if (folders.empty())
    throw IoError(concat(folder,
                         " has no subfolders; an image folder needs one "
                         "subfolder of images for each class"));
  names_ = options_.class_names.empty() ? folders : options_.class_names;
  for (const std::string& name : folders)
    add_class((fs::path(folder) / name).string(),
              label_of(names_, name, folder));
  const at::Tensor first = image(0, Random());
  shape_ = first.sizes().vec();
  type_ = first.scalar_type();
}

void ImageFolder::add_class(const std::string& folder, std::int64_t label) {
  const std::vector<std::string> images = ImageSearch().run(folder);
  if (images.empty())
    throw IoError(concat(folder, " contains no image; supported extensions: ",
                         join(image_endings(), ", ")));
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
  const at::Tensor pixels =
      read_image(path_of(index), options_.channels, {options_.max_pixels});
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
                images[0].sizes(), "; resize or crop all images to the same ",
                "size (ImageFolderOptions::each)");
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
