#pragma once
// Examples to learn from: data, each with a target.

#include <torch/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sheaf/data/dataset/box.hpp"
#include "sheaf/data/dataset/random.hpp"

namespace sheaf::data {

// Some examples together: `data` and `target` have one row for each.
struct Batch {
  at::Tensor data;
  at::Tensor target;
  // Where the first of them stands in the order of the epoch.
  std::int64_t first_index = 0;
  // Examples of the whole global batch, over all ranks. A rank whose share
  // has n of them weighs its mean loss by n / global_size.
  std::int64_t global_size = 0;
  // The shape of an example of which `data` has a part only; empty: it has all.
  Sizes whole = {};
  // The same of a target that has an element for each pixel, in its last axes.
  Sizes whole_target = {};
  // Of images, out of files or memory; see Dataset::get_boxes().
  std::int64_t bytes_read = 0;

  std::int64_t size() const { return data.defined() ? data.size(0) : 0; }
};

// Any number of threads may call anything here at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;

  // The examples with these indices, in this order; with no index, tensors
  // with no rows. Images are [examples, channels, height, width], and bytes
  // stay bytes. `random` is that of the epoch; what is drawn for an example
  // comes from random.derive(index). UsageError for an index that is not
  // there; IoError for a file that is broken.
  virtual Batch get(std::span<const std::int64_t> indices,
                    Random& random) const = 0;

  // The same with a part of each example's data; beyond the borders of images
  // it is 0. Targets are whole.
  virtual Batch get_boxes(std::span<const std::int64_t> indices,
                          const Boxes& boxes, Random& random) const;
  // Why get_boxes() reads whole images for that; empty: it does not.
  virtual std::string reads_whole_for() const;
  // Where get_boxes() takes them from: "mapped files".
  virtual std::string source() const { return "the dataset"; }

  // 0 where targets are no classes.
  virtual std::int64_t classes() const = 0;
  // The shape of one example's data.
  virtual std::vector<std::int64_t> example_shape() const = 0;
  // One per class, or none where they have no names.
  virtual std::vector<std::string> class_names() const { return {}; }

 protected:
  // UsageError naming the first index that is not below size().
  void check_indices(std::span<const std::int64_t> indices) const;
};

// Tensors in memory, or in files that are mapped to it; rows of `data` and of
// `target` belong together.
class TensorDataset : public Dataset {
 public:
  // UsageError when they do not have the same number of rows, and when targets
  // of whole numbers do not lie in 0 to classes-1. With `classes` 0, those of
  // one whole number per row are counted: largest target + 1.
  TensorDataset(at::Tensor data, at::Tensor target, std::int64_t classes = 0,
                std::vector<std::string> class_names = {});
  // Data in several tensors, one after the other, which are not copied where
  // the elements of a row are dense.
  TensorDataset(std::vector<at::Tensor> parts, at::Tensor target,
                std::int64_t classes = 0,
                std::vector<std::string> class_names = {});

  std::int64_t size() const override { return target_.size(0); }
  Batch get(std::span<const std::int64_t> indices,
            Random& random) const override;
  Batch get_boxes(std::span<const std::int64_t> indices, const Boxes& boxes,
                  Random& random) const override;
  std::string reads_whole_for() const override { return ""; }
  std::string source() const override { return source_; }
  void set_source(std::string source) { source_ = std::move(source); }
  std::int64_t classes() const override { return classes_; }
  std::vector<std::int64_t> example_shape() const override;
  std::vector<std::string> class_names() const override { return names_; }

  // All of it; a copy where there are several parts.
  at::Tensor data() const;
  const at::Tensor& target() const { return target_; }

 private:
  const char* example(std::int64_t index) const;
  at::Tensor make_rows(std::size_t count, const Sizes& shape) const;

  std::vector<at::Tensor> parts_;
  std::vector<std::int64_t> ends_;  // of the parts, in examples
  at::Tensor target_;
  std::string source_ = "memory";
  std::int64_t classes_ = 0;
  std::vector<std::string> names_;
};

}  // namespace sheaf::data
