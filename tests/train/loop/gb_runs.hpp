#pragma once
// Small runs with pre-training.

#include "tests/train/loop/runs.hpp"

namespace sheaf::train {

// Two stages; 22 examples in batches of 8: 3 steps per epoch, 2 epochs per
// stage, so 12 steps of pre-training, then 9 of the run, the first 3 for the
// classifier alone.
inline const char* const kGbRun = R"(
data:
  name: synthetic
  arguments: {examples: 22, test_examples: 10, classes: 3, shape: [1, 10, 10]}
  workers: 0
network:
  name: gb
  arguments: {image_size: 10, kernels: 3-2, maps: 2, classes: 3}
pretraining: {epochs: 2, learning_rate: 0.1, sparsity: 0.005,
              classifier_epochs: 1}
optimizer: {name: sgd, learning_rate: 0.1, momentum: 0.5, weight_decay: 0.01}
epochs: 3
global_batch: 8
seed: 5
threads: 1
output: {log_every: 5, tensorboard: false}
)";

inline RunConfig gb_run(const std::vector<std::string>& sets = {}) {
  return complete(parse_config(kGbRun, "gb.yaml", sets));
}

// Requests its own rank to stop when the n-th batch is read.
class StoppingSet : public Slice {
 public:
  StoppingSet(std::shared_ptr<const data::Dataset> whole, int batches)
      : Slice(whole, 0, whole->size()), left_(batches) {}

  data::Batch get(std::span<const std::int64_t> indices,
                  data::Random& random) const override {
    count();
    return Slice::get(indices, random);
  }
  data::Batch get_boxes(std::span<const std::int64_t> indices,
                        const data::Boxes& boxes,
                        data::Random& random) const override {
    count();
    return Slice::get_boxes(indices, boxes, random);
  }

 private:
  void count() const {
    if (--left_ == 0) ::raise(SIGUSR1);
  }

  mutable int left_;
};

inline DataSets stopping_data(const RunConfig& config, int batches) {
  DataSets sets = open_data(config);
  sets.train = std::make_shared<StoppingSet>(sets.train, batches);
  return sets;
}

}  // namespace sheaf::train
