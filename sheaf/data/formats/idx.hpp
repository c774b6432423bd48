#pragma once
// IDX files, the format of MNIST and Fashion-MNIST, plain or gzip.

#include <torch/types.h>

#include <memory>
#include <string>

#include "sheaf/data/dataset/dataset.hpp"

namespace sheaf::data {

// Reads the array of an IDX file, with any element type of the format. Throws
// IoError, which names the file and the offset, if the header is invalid or
// does not match the file size.
at::Tensor read_idx(const std::string& path);

struct IdxOptions {
  std::int64_t classes = 0;  // 0: largest label + 1
  std::vector<std::string> class_names = {};
};

// Images with their labels; two-dimensional images get one channel.
// Uncompressed images of bytes are memory-mapped and read on demand. Throws
// IoError like read_idx, if the numbers of images and labels differ, and if a
// label is not a class.
std::shared_ptr<TensorDataset> read_idx_dataset(const std::string& images,
                                                const std::string& labels,
                                                const IdxOptions& options = {});

}  // namespace sheaf::data
