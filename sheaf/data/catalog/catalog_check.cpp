// Verifies that the files of a dataset are the published ones.
#include <fmt/format.h>

#include <filesystem>

#include "sheaf/base/error.hpp"
#include "sheaf/data/catalog/catalog.hpp"
#include "sheaf/formats/bytes/file_bytes.hpp"

namespace sheaf::data {
namespace {

CheckedFile check_file(const KnownFile& known, const std::string& path) {
  const formats::FileBytes content = formats::read_bytes(path);
  const CheckedFile file{path, static_cast<std::int64_t>(content.size),
                         crc32_of(content)};
  if (known.crc32 != 0 && known.crc32 != file.crc32)
    throw IoError(fmt::format(
        "{}: the content differs from the published file: the checksum is "
        "{:08x}, expected {:08x}; delete it and download it again",
        path, file.crc32, known.crc32));
  return file;
}

void check_counts(const TensorDataset& dataset, const std::string& what,
                  std::int64_t expected) {
  if (dataset.size() != expected)
    throw IoError(concat(what, " has ", dataset.size(), " examples, expected ",
                         expected));
}

void check_classes(const TensorDataset& dataset, const std::string& what) {
  const at::Tensor counts =
      at::bincount(dataset.target(), {}, dataset.classes());
  const std::int64_t expected = dataset.size() / dataset.classes();
  const auto* count = counts.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < dataset.classes(); ++i)
    if (count[i] != expected)
      throw IoError(concat(what, " has ", count[i], " examples of class ", i,
                           ", expected ", expected));
}

}  // namespace

std::vector<CheckedFile> check_dataset(const std::string& name,
                                       const std::string& folder) {
  const CatalogEntry& entry = catalog_entry(name);
  std::vector<CheckedFile> files;
  for (const char* split : {"train", "test"}) {
    const std::vector<std::string> paths = split_files(name, split, folder);
    const std::string place =
        std::filesystem::path(paths[0]).parent_path().string();
    const std::string what = concat(name, " in ", place, ", split ", split);
    // Opened first: its errors are more specific than a wrong checksum.
    const auto dataset = std::dynamic_pointer_cast<TensorDataset>(
        open_dataset(name, split, folder));
    SHEAF_ASSERT(dataset, what, " is not in memory");
    const bool is_train = split == std::string("train");
    check_counts(*dataset, what, is_train ? entry.train : entry.test);
    const bool is_cifar = name.starts_with("cifar");
    if (is_cifar) check_classes(*dataset, what);
    const std::vector<KnownFile> known = known_files(name, split);
    for (std::size_t i = 0; i < known.size(); ++i)
      files.push_back(check_file(known[i], paths[i]));
  }
  return files;
}

}  // namespace sheaf::data
