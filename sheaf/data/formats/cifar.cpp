#include "sheaf/base/error.hpp"
#include "sheaf/data/formats/array_files.hpp"
#include "sheaf/data/formats/file.hpp"

namespace sheaf::data {
namespace {

constexpr std::int64_t kImageBytes = 3 * 32 * 32;

// The layout of a record: labels of one byte each, then the image.
struct RecordLayout {
  std::vector<std::int64_t> label_classes;  // number of classes per label
  std::int64_t target = 0;                  // index of the target label

  std::int64_t labels() const {
    return static_cast<std::int64_t>(label_classes.size());
  }
  std::int64_t record_bytes() const { return labels() + kImageBytes; }
  std::int64_t classes() const {
    return label_classes[static_cast<std::size_t>(target)];
  }
};

RecordLayout layout_of(CifarKind kind) {
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

std::vector<std::string> names_of(CifarKind kind) {
  if (kind != CifarKind::kCifar10) return {};
  return {"airplane", "automobile", "bird",  "cat",  "deer",
          "dog",      "frog",       "horse", "ship", "truck"};
}

void check_record_count(const FileContent& file, const RecordLayout& layout) {
  const std::int64_t rest = file.size() % layout.record_bytes();
  if (rest != 0)
    file.fail(file.size() - rest, concat("the last record has ", rest,
                                         " bytes of ", layout.record_bytes()));
  if (file.size() == 0) file.fail(0, "the file is empty");
}

void check_labels(const FileContent& file, const RecordLayout& layout) {
  for (std::int64_t at = 0; at < file.size(); at += layout.record_bytes())
    for (std::int64_t i = 0; i < layout.labels(); ++i) {
      const std::int64_t classes =
          layout.label_classes[static_cast<std::size_t>(i)];
      const std::uint8_t label = file.data()[at + i];
      if (label >= classes)
        file.fail(at + i, concat("label ", int{label}, " is not one of the ",
                                 classes, " classes"));
    }
}

at::Tensor records_of(const FileContent& file, const RecordLayout& layout) {
  check_record_count(file, layout);
  check_labels(file, layout);
  return file.bytes.view({-1, layout.record_bytes()});
}

}  // namespace

std::shared_ptr<TensorDataset> read_cifar(std::span<const std::string> files,
                                          CifarKind kind) {
  SHEAF_CHECK(!files.empty(), "no CIFAR files were given");
  const RecordLayout layout = layout_of(kind);
  std::vector<at::Tensor> images, targets;
  std::string source;
  for (const std::string& path : files) {
    const FileContent file = map_file(path);
    const at::Tensor records = records_of(file, layout);
    // A strided view of the file: labels stay between the images.
    images.push_back(
        records.narrow(1, layout.labels(), kImageBytes).view({-1, 3, 32, 32}));
    targets.push_back(records.select(1, layout.target));
    source = source_of(file);
  }
  auto dataset = std::make_shared<TensorDataset>(
      std::move(images), at::cat(targets), layout.classes(), names_of(kind));
  dataset->set_source(source);
  return dataset;
}

std::vector<std::string> cifar_file_names(CifarKind kind,
                                          const std::string& split) {
  SHEAF_CHECK(split == "train" || split == "test", "CIFAR has no split '",
              split, "'; allowed: train, test");
  if (kind != CifarKind::kCifar10) return {split + ".bin"};
  if (split == "test") return {"test_batch.bin"};
  std::vector<std::string> names;
  for (int i = 1; i <= 5; ++i)
    names.push_back(concat("data_batch_", i, ".bin"));
  return names;
}

}  // namespace sheaf::data
