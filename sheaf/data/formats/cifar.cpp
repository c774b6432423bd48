#include "sheaf/formats/arrays/cifar.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/data/formats/array_files.hpp"
#include "sheaf/data/formats/file.hpp"

namespace sheaf::data {
namespace {

std::vector<std::string> names_of(CifarKind kind) {
  if (kind != CifarKind::kCifar10) return {};
  return {"airplane", "automobile", "bird",  "cat",  "deer",
          "dog",      "frog",       "horse", "ship", "truck"};
}

}  // namespace

std::shared_ptr<TensorDataset> read_cifar(std::span<const std::string> paths,
                                          CifarKind kind) {
  SHEAF_CHECK(!paths.empty(), "no CIFAR files were given");
  const formats::CifarLayout layout = formats::cifar_layout(kind);
  const auto labels = static_cast<std::int64_t>(layout.labels());
  const auto record_bytes = static_cast<std::int64_t>(layout.record_bytes());
  constexpr auto kImageBytes =
      static_cast<std::int64_t>(formats::kCifarImageBytes);
  std::vector<formats::FileBytes> files;
  std::vector<at::Tensor> images, targets;
  for (const std::string& path : paths) {
    files.push_back(formats::map_bytes(path));
    formats::check_cifar(files.back(), layout);
    const at::Tensor records = tensor_of(files.back()).view({-1, record_bytes});
    // A strided view of the file: labels stay between the images.
    images.push_back(
        records.narrow(1, labels, kImageBytes).view({-1, 3, 32, 32}));
    targets.push_back(
        records.select(1, static_cast<std::int64_t>(layout.target)));
  }
  auto dataset = std::make_shared<TensorDataset>(
      std::move(images), at::cat(targets), layout.classes(), names_of(kind));
  set_files(*dataset, std::move(files));
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
