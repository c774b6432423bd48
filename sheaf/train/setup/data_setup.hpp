#pragma once
// Opens the datasets, transforms and loaders that a config specifies: which
// samples, and which part of each image, a rank reads.

#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/data/dataset/dataset.hpp"
#include "sheaf/data/load/loader.hpp"
#include "sheaf/data/load/sampler.hpp"
#include "sheaf/data/transform/transform.hpp"
#include "sheaf/train/config/config.hpp"

namespace sheaf::train {

struct DataSets {
  std::shared_ptr<const data::Dataset> train;
  std::shared_ptr<const data::Dataset> validation;  // null: none
  std::shared_ptr<const data::Dataset> test;
  data::TransformPtr transform;  // null: none
  data::TransformPtr evaluation_transform;
};

// Throws UsageError with file and line for unknown transforms and arguments,
// IoError if files are missing.
DataSets open_data(const RunConfig& config);

// Throws a UsageError that names the first class that differs between the
// training set and the validation or test set, because equal labels would mean
// different classes. A set without class names may have fewer classes than the
// training set, but not more.
void check_classes(const DataSets& sets);
// Compares the class names stored in a checkpoint with those of the training
// set. A checkpoint or dataset without names matches any.
void check_classes(const std::vector<std::string>& checkpoint,
                   const data::Dataset& train);

// Assigns disjoint sets of classes to the ranks, as equal in number as
// possible. Throws UsageError if there are fewer classes than ranks.
data::Sites sites_by_class(const data::Dataset& dataset, int ranks);

// A contiguous range of another dataset's examples.
class Slice : public data::Dataset {
 public:
  Slice(std::shared_ptr<const data::Dataset> whole, std::int64_t first,
        std::int64_t size);

  std::int64_t size() const override { return size_; }
  data::Batch get(std::span<const std::int64_t> indices,
                  data::Random& random) const override;
  std::int64_t classes() const override { return whole_->classes(); }
  std::vector<std::int64_t> example_shape() const override {
    return whole_->example_shape();
  }
  std::vector<std::string> class_names() const override {
    return whole_->class_names();
  }
  data::Batch get_boxes(std::span<const std::int64_t> indices,
                        const data::Boxes& boxes,
                        data::Random& random) const override;
  std::string reads_whole_for() const override {
    return whole_->reads_whole_for();
  }
  std::string source() const override { return whole_->source(); }

 private:
  std::vector<std::int64_t> shifted(
      std::span<const std::int64_t> indices) const;

  std::shared_ptr<const data::Dataset> whole_;
  std::int64_t first_;
  std::int64_t size_;
};

// The ranks that process different samples: all ranks, unless images are split;
// then the ranks with the same tile of different images. All ranks must call
// it.
comm::Group sample_ranks(const RunConfig& config, const comm::Group& group);

struct Loaders {
  std::optional<data::Loader> train;
  std::optional<data::Loader> validation;  // if there is a validation set
  std::optional<data::Loader> test;        // if there is a test set
};

// `samples` is sample_ranks(). Throws UsageError if the training set is empty.
Loaders open_loaders(const RunConfig& config, const DataSets& sets,
                     const torch::nn::Module& module,
                     const comm::Group& samples, const comm::Group& group);

}  // namespace sheaf::train
