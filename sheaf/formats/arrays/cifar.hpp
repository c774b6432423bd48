#pragma once
// The binary format of CIFAR-10 and CIFAR-100: records of one or two labels and
// an image of 3x32x32 bytes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/formats/bytes/file_bytes.hpp"

namespace sheaf::formats {

enum class CifarKind {
  kCifar10,         // records: label, image
  kCifar100,        // records: coarse label, fine label (the target), image
  kCifar100Coarse,  // the same files; the coarse label is the target
};

inline constexpr std::size_t kCifarImageBytes = 3 * 32 * 32;

// The layout of a record: labels of one byte each, then the image.
struct CifarLayout {
  std::vector<int> label_classes;  // number of classes per label
  std::size_t target = 0;          // index of the target label

  std::size_t labels() const { return label_classes.size(); }
  std::size_t record_bytes() const { return labels() + kCifarImageBytes; }
  int classes() const { return label_classes[target]; }
};

CifarLayout cifar_layout(CifarKind kind);

// Returns the number of records. Throws IoError, which names the file and the
// offset, if it is empty, ends within a record or has a label out of range.
std::size_t check_cifar(const FileBytes& file, const CifarLayout& layout);

}  // namespace sheaf::formats
