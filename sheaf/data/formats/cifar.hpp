#pragma once
// CIFAR-10 and CIFAR-100 in the binary format, plain or gzip.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sheaf/data/dataset/dataset.hpp"

namespace sheaf::data {

enum class CifarKind {
  kCifar10,         // records: label, image
  kCifar100,        // records: coarse label, fine label (the target), image
  kCifar100Coarse,  // the same files; the coarse label is the target
};

// The images of all files, concatenated, as 3x32x32 bytes. Uncompressed files
// are memory-mapped and read on demand. Throws IoError, which names the file
// and the offset, if a file ends within a record or a label is out of range.
std::shared_ptr<TensorDataset> read_cifar(std::span<const std::string> files,
                                          CifarKind kind);

// The file names of the split "train" or "test": data_batch_1.bin to
// data_batch_5.bin and test_batch.bin, or train.bin and test.bin. Throws
// UsageError for other splits.
std::vector<std::string> cifar_file_names(CifarKind kind,
                                          const std::string& split);

}  // namespace sheaf::data
