#pragma once
// A folder with a folder of images for each class.

#include <string>
#include <utility>
#include <vector>

#include "sheaf/data/dataset/dataset.hpp"
#include "sheaf/data/transform/transform.hpp"

namespace sheaf::data {

struct ImageFolderOptions {
  int channels = 3;  // 1: gray
  // Done to each image alone, before they are put together: images of
  // different sizes must come out alike. For instance
  // compose({resize_shorter(256), centre_crop(224, 224)}).
  TransformPtr each = nullptr;
  // The classes by number, such as the class_names() of the training images
  // for images to test with: some may have no folder here, and any other folder
  // is a UsageError. Empty: the folders that are there, in the order of their
  // names' bytes.
  std::vector<std::string> class_names = {};
};

// The names of the folders in `folder`, in the order of their bytes; those that
// begin with a dot are hidden and left out. IoError where it cannot be read.
std::vector<std::string> class_folders(const std::string& folder);

// Classes are the folders in `folder`; examples are the images anywhere below
// them, in the order of their paths. Links are followed; one that leads back to
// a folder that it is in is logged and skipped. Hidden files and folders, whose
// names begin with a dot, are ignored, and so are files with other endings than
// image_endings(). Images are read when they are asked for.
class ImageFolder : public Dataset {
 public:
  // IoError when there is no folder of a class, when one has no image, or when
  // the link to an image leads nowhere.
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

  void add_class(const std::string& folder, std::int64_t label);
  at::Tensor image(std::int64_t index, const Random& random) const;

  ImageFolderOptions options_;
  std::vector<std::string> names_;
  std::vector<Example> examples_;
  std::vector<std::int64_t> shape_;
  at::ScalarType type_ = at::kByte;
};

}  // namespace sheaf::data
