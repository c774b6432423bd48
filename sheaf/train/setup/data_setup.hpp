#pragma once
// Opens the datasets and transforms that a config specifies.

#include <memory>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/data/dataset/dataset.hpp"
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

}  // namespace sheaf::train
