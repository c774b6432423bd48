#pragma once
// Datasets in files of arrays: the binary format of CIFAR-10 and CIFAR-100, IDX
// (the format of MNIST and Fashion-MNIST), both plain or gzip, and NumPy's
// .npy.

#include <torch/types.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sheaf/data/dataset/dataset.hpp"
#include "sheaf/formats/arrays/cifar.hpp"
#include "sheaf/formats/bytes/file_bytes.hpp"

namespace sheaf::data {

using formats::CifarKind;

// `folder`/`name` or `folder`/`name`.gz, whichever exists; "" if neither does.
std::string find_file(const std::string& folder, const std::string& name);

// The bytes as a tensor with one dimension, in the memory of the file, which
// lives as long as the tensor. A mapped file that is truncated becomes zeros.
at::Tensor tensor_of(const formats::FileBytes& file);

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

// Reads the array of an IDX file into memory, with any element type of the
// format. Throws IoError, which names the file and the offset, if the header is
// invalid or does not match the file size.
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

// A dataset from two .npy files with one row per example. `data` is memory-
// mapped if its layout allows. One-dimensional integer targets are classes.
// Throws IoError if the numbers of rows differ.
std::shared_ptr<TensorDataset> read_npy_dataset(const std::string& data,
                                                const std::string& target);

}  // namespace sheaf::data
