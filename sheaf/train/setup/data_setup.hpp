#pragma once
// The data sets and transforms that a run description asks for.

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

// UsageError with file and line for transforms and arguments that are not
// known; IoError where files are missing.
DataSets open_data(const RunConfig& config);

// UsageError names the first class that is not the same in the training set and
// in the sets to evaluate with: their labels would mean other classes. Sets
// without names may have fewer classes than the training set, but not more.
void check_classes(const DataSets& sets);
// The same for those of a checkpoint, which were the training set's. A
// checkpoint or data without names agree with any.
void check_classes(const std::vector<std::string>& checkpoint,
                   const data::Dataset& train);

// Ranks get classes of their own, as equal in number as can be. UsageError
// where there are no classes, or fewer than ranks.
data::Sites sites_by_class(const data::Dataset& dataset, int ranks);

// The part of an image that belongs to this rank of a grid; null where images
// are not cut.
data::TileOf tile_of(const RunConfig& config, const comm::Group& group);

// Some neighbouring examples of another data set.
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
