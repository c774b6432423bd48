#pragma once
// CIFAR-10 and CIFAR-100 in their binary form; plain or gzip.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sheaf/data/dataset/dataset.hpp"

namespace sheaf::data {

enum class CifarKind {
  kCifar10,         // a label, then the image
  kCifar100,        // a label of 20, one of 100 (the target), then the image
  kCifar100Coarse,  // the same files; the target is the label of 20
};

// The images of all files, one after the other, as 3x32x32 bytes. Those of
// files that are not packed stay there until they are asked for. IoError names
// file and offset when a file is no whole number of records or a label is none.
std::shared_ptr<TensorDataset> read_cifar(std::span<const std::string> files,
                                          CifarKind kind);

// The files of a split, "train" or "test", as they are called: data_batch_1.bin
// to data_batch_5.bin and test_batch.bin, or train.bin and test.bin.
std::vector<std::string> cifar_file_names(CifarKind kind,
                                          const std::string& split);

}  // namespace sheaf::data
