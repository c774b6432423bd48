#pragma once
// IDX files, as MNIST, Fashion-MNIST and their kin come in; plain or gzip.

#include <torch/types.h>

#include <memory>
#include <string>

#include "sheaf/data/dataset/dataset.hpp"

namespace sheaf::data {

// The array of an IDX file, of any of the format's element types. IoError
// names file and offset when the header is none, or when the file is shorter
// or longer than it says.
at::Tensor read_idx(const std::string& path);

struct IdxOptions {
  std::int64_t classes = 0;  // 0: largest label + 1
  std::vector<std::string> class_names = {};
};

// Images (two dimensions: one channel) with their labels. Images of bytes that
// are not packed stay in their file until they are asked for. IoError, too,
// when there are more of one than of the other, or a label is no class.
std::shared_ptr<TensorDataset> read_idx_dataset(const std::string& images,
                                                const std::string& labels,
                                                const IdxOptions& options = {});

}  // namespace sheaf::data
