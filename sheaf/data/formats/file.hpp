#pragma once
// Files as tensors and as the memory of datasets.

#include <torch/types.h>

#include <string>
#include <vector>

#include "sheaf/data/dataset/dataset.hpp"
#include "sheaf/formats/bytes/file_bytes.hpp"

namespace sheaf::data {

// The bytes as a tensor with one dimension, in the memory of the file, which
// lives as long as the tensor. A mapped file that is truncated becomes zeros.
at::Tensor tensor_of(const formats::FileBytes& file);

// Declares that the dataset reads the memory of these files: its source becomes
// "mapped files" or "files decompressed into memory", and a batch is an IoError
// once one of them was truncated. Checks that for what was read so far.
void set_files(TensorDataset& dataset, std::vector<formats::FileBytes> files);

// `folder`/`name` or `folder`/`name`.gz, whichever exists; "" if neither does.
std::string find_file(const std::string& folder, const std::string& name);

}  // namespace sheaf::data
