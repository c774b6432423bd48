#include "sheaf/formats/arrays/cifar.hpp"

#include "sheaf/base/error.hpp"

namespace sheaf::formats {
namespace {

void check_record_count(const FileBytes& file, const CifarLayout& layout) {
  const std::size_t rest = file.size % layout.record_bytes();
  if (rest != 0)
    file.fail(file.size - rest, concat("the last record has ", rest,
                                       " bytes of ", layout.record_bytes()));
  if (file.size == 0) file.fail(0, "the file is empty");
}

void check_cifar_labels(const FileBytes& file, const CifarLayout& layout) {
  for (std::size_t at = 0; at < file.size; at += layout.record_bytes())
    for (std::size_t i = 0; i < layout.labels(); ++i) {
      const int label = file.data()[at + i];
      const int classes = layout.label_classes[i];
      if (label >= classes)
        file.fail(at + i, concat("label ", label, " is not one of the ",
                                 classes, " classes"));
    }
}

}  // namespace

CifarLayout cifar_layout(CifarKind kind) {
  switch (kind) {
    case CifarKind::kCifar10:
      return {{10}, 0};
    case CifarKind::kCifar100:
      return {{20, 100}, 1};
    case CifarKind::kCifar100Coarse:
      return {{20, 100}, 0};
  }
  throw UsageError(concat("unknown kind of CIFAR, ", static_cast<int>(kind)));
}

std::size_t check_cifar(const FileBytes& file, const CifarLayout& layout) {
  check_record_count(file, layout);
  check_cifar_labels(file, layout);
  return file.size / layout.record_bytes();
}

}  // namespace sheaf::formats
