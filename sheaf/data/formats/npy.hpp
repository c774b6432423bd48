#pragma once
// Arrays that numpy saved.

#include <memory>
#include <string>

#include "sheaf/data/dataset/dataset.hpp"

namespace sheaf::data {

// The rows of `data` with those of `target`; targets of whole numbers are
// classes. IoError when one has more rows than the other.
std::shared_ptr<TensorDataset> read_npy_dataset(const std::string& data,
                                                const std::string& target);

}  // namespace sheaf::data
