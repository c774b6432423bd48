#pragma once
// A folder with a folder of images for each class.

#include <string>
#include <utility>
#include <vector>

#include "sheaf/data/dataset.hpp"
#include "sheaf/data/transform.hpp"

namespace sheaf::data {

struct ImageFolderOptions {
  int channels = 3;  // 1: grey
  // Done to each image alone, before they are put together: images of
  // different sizes must come out alike. For instance
  // compose({resize_shorter(256), centre_crop(224, 224)}).
  TransformPtr each = nullptr;
};

// Classes are the folders in `folder`, in the order of their names' bytes;
// examples are the images anywhere below them, in the order of their paths.
// Files with other endings than image_endings() are passed over. Images are
// read when they are asked for.
class ImageFolder : public Dataset {
 public:
  // IoError when there is no class or a class has no image.
  explicit ImageFolder(const std::string& folder,
                       ImageFolderOptions options = {});

  std::int64_t size() const override;
  // UsageError names two files whose images have different sizes.
  Batch get(std::span<const std::int64_t> indices,
            Random& random) const override;
  std::string reads_whole_for() const override {
    return "PNG and JPEG files are decoded whole";
  }
  std::int64_t classes() const override;
  // That of the first image.
  std::vector<std::int64_t> example_shape() const override { return shape_; }
  std::vector<std::string> class_names() const override { return names_; }

  const std::string& path_of(std::int64_t index) const;

 private:
  struct Example {
    std::string path;
    std::int64_t label;
  };

  void add_class(const std::string& folder);
  at::Tensor image(std::int64_t index, const Random& random) const;

  ImageFolderOptions options_;
  std::vector<std::string> names_;
  std::vector<Example> examples_;
  std::vector<std::int64_t> shape_;
  at::ScalarType type_ = at::kByte;
};

}  // namespace sheaf::data
