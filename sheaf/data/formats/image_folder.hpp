#pragma once
// Image files as tensors, and a dataset of them: a folder with one subfolder of
// images per class.

#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

#include "sheaf/data/dataset/dataset.hpp"
#include "sheaf/data/transform/transform.hpp"
#include "sheaf/formats/images/image.hpp"

namespace sheaf::data {

// The image as bytes [channels, height, width]; `channels` is 1 (gray) or
// 3 (red, green, blue), and other images are converted. Gray from color is the
// luma of ITU-R 601-2, rounded: (19595 R + 38470 G + 7471 B + 32768) >> 16,
// for all formats. Throws like formats::decode_image().
at::Tensor read_image(const std::string& path, int channels = 3,
                      const formats::ImageLimits& limits = {});

// File name extensions of images, in lower case. Includes formats that this
// build does not support; reading such a file is an error.
std::vector<std::string> image_endings();

struct ImageFolderOptions {
  int channels = 3;  // 1: gray
  // Applied to each image before images are batched. Images of different sizes
  // must have the same size afterwards. Example:
  // compose({resize_shorter(256), center_crop(224, 224)}).
  TransformPtr each = nullptr;
  // The classes by number, such as the class_names() of the training images
  // for a test set. Classes may lack a folder; a folder that is not a class is
  // a UsageError. Empty: the existing folders, in byte order of their names.
  std::vector<std::string> class_names = {};
  // Images with more rows times columns are an IoError. A file of some KB can
  // specify a size that takes all memory.
  std::int64_t max_pixels = formats::ImageLimits().max_pixels;
};

// The names of the subfolders of `folder`, in byte order; hidden folders, whose
// names begin with a dot, are ignored. Throws IoError if `folder` cannot be
// read.
std::vector<std::string> class_folders(const std::string& folder);

// Classes are the subfolders of `folder`; examples are all images below them,
// in the order of their paths. Symbolic links are followed; a link to one of
// its parent folders is logged and skipped. Hidden files and folders are
// ignored, and so are files whose extensions are not in image_endings(). Images
// are read on demand.
class ImageFolder : public Dataset {
 public:
  // Throws IoError if there are no class folders, if one has no image, if the
  // link to an image is dangling, if what should be an image is not a file, and
  // if links lead to a folder by more than 100 paths.
  explicit ImageFolder(const std::string& folder,
                       ImageFolderOptions options = {});

  std::int64_t size() const override;
  // Throws UsageError, which names two files, if image sizes differ.
  Batch get(std::span<const std::int64_t> indices,
            Random& random) const override;
  std::string reads_whole_for() const override {
    return "PNG and JPEG files must be decoded whole";
  }
  std::int64_t classes() const override;
  // The shape of the first image.
  std::vector<std::int64_t> example_shape() const override { return shape_; }
  std::vector<std::string> class_names() const override { return names_; }

  const std::string& path_of(std::int64_t index) const;

 private:
  struct Example {
    std::string path;
    std::int64_t label;
  };

  void add_class(const std::string& folder, std::int64_t label);
  at::Tensor image(std::int64_t index, const Random& random) const;

  ImageFolderOptions options_;
  std::vector<std::string> names_;
  std::vector<Example> examples_;
  std::vector<std::int64_t> shape_;
  at::ScalarType type_ = at::kByte;
};

}  // namespace sheaf::data
