#pragma once
// Creates the loaders of a run: which samples, and which part of each image, a
// rank reads.

#include <torch/nn/module.h>

#include <optional>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/data/load/loader.hpp"
#include "sheaf/train/config/config.hpp"
#include "sheaf/train/setup/data_setup.hpp"

namespace sheaf::train {

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
