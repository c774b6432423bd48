#pragma once
// Datasets from NumPy .npy files.

#include <memory>
#include <string>

#include "sheaf/data/dataset/dataset.hpp"

namespace sheaf::data {

// A dataset from two .npy files with one row per example. `data` is memory-
// mapped if its layout allows. One-dimensional integer targets are classes.
// Throws IoError if the numbers of rows differ.
std::shared_ptr<TensorDataset> read_npy_dataset(const std::string& data,
                                                const std::string& target);

}  // namespace sheaf::data
