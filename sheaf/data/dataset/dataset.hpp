#pragma once
// Datasets: collections of examples, each with data and a target.

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sheaf/data/dataset/box.hpp"
#include "sheaf/data/dataset/random.hpp"

namespace sheaf::data {

// Several examples: `data` and `target` have one row for each.
struct Batch {
  at::Tensor data;
  at::Tensor target;
  // Position of the first example in the epoch's order.
  std::int64_t first_index = 0;
  // Number of examples in the global batch, over all ranks. A rank with n of
  // them must weight its mean loss by n / global_size.
  std::int64_t global_size = 0;
  // Shape of a whole example if `data` holds only a part of it; else empty.
  Sizes whole = {};
  // The same for targets with one element per pixel, in their last axes.
  Sizes whole_target = {};
  // Bytes of data read from files or memory; see Dataset::get_boxes().
  std::int64_t bytes_read = 0;

  std::int64_t size() const { return data.defined() ? data.size(0) : 0; }
};

// All const member functions are thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;

  // The examples with these indices, in this order; without indices, tensors
  // with zero rows. Images are [examples, channels, height, width], and bytes
  // stay bytes. `random` is the epoch's stream; random numbers for an example
  // come from random.derive(index). Throws UsageError for an index that is out
  // of range, and IoError for a corrupt file.
  virtual Batch get(std::span<const std::int64_t> indices,
                    Random& random) const = 0;

  // Like get(), with a part of each example's data; zero outside of the image.
  // Targets are whole.
  virtual Batch get_boxes(std::span<const std::int64_t> indices,
                          const Boxes& boxes, Random& random) const;
  // The reason why get_boxes() reads whole images; empty if it does not.
  virtual std::string reads_whole_for() const;
  // Where get_boxes() reads from, for messages: "mapped files".
  virtual std::string source() const { return "the dataset"; }

  // The number of classes; 0 if targets are not classes.
  virtual std::int64_t classes() const = 0;
  // The shape of one example's data.
  virtual std::vector<std::int64_t> example_shape() const = 0;
  // One name per class; empty if classes have no names.
  virtual std::vector<std::string> class_names() const { return {}; }

 protected:
  // Throws UsageError, which names the first index that is out of range.
  void check_indices(std::span<const std::int64_t> indices) const;
};

// A dataset of tensors in memory or in memory-mapped files. Row i of `data`
// and row i of `target` are example i.
class TensorDataset : public Dataset {
 public:
  // Throws UsageError unless both have the same number of rows, and unless
  // integer targets, one per row, are in 0 to classes-1. With `classes` 0 the
  // number of classes is the largest such target + 1.
  TensorDataset(at::Tensor data, at::Tensor target, std::int64_t classes = 0,
                std::vector<std::string> class_names = {});
  // Data in several tensors, concatenated. A tensor whose rows are contiguous
  // is not copied.
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
  // `check` is called now and after each read of the data; it throws if what
  // was read may be wrong.
  void set_check(std::function<void()> check);
  std::int64_t classes() const override { return classes_; }
  std::vector<std::int64_t> example_shape() const override;
  std::vector<std::string> class_names() const override { return names_; }

  // All data; a copy if it has several parts. Later changes of a mapped file
  // show in it, and are an error of the next get() only.
  at::Tensor data() const;
  const at::Tensor& target() const { return target_; }

 private:
  const char* example(std::int64_t index) const;
  void check_data() const;
  at::Tensor make_rows(std::size_t count, const Sizes& shape) const;

  std::vector<at::Tensor> parts_;
  std::vector<std::int64_t> ends_;  // end index of each part, in examples
  at::Tensor target_;
  std::string source_ = "memory";
  std::function<void()> check_;
  std::int64_t classes_ = 0;
  std::vector<std::string> names_;
};

}  // namespace sheaf::data
