#include "sheaf/data/formats/file.hpp"

#include <filesystem>
#include <utility>

namespace sheaf::data {

at::Tensor tensor_of(const formats::FileBytes& file) {
  const auto count = static_cast<std::int64_t>(file.size);
  const at::TensorOptions options(at::kByte);
  if (count == 0) return at::empty({0}, options);
  return at::from_blob(
      file.memory.get(), {count},
      [memory = file.memory](void*) mutable { memory.reset(); }, options);
}

void set_files(TensorDataset& dataset, std::vector<formats::FileBytes> files) {
  dataset.set_source(files.back().was_unpacked
                         ? "files decompressed into memory"
                         : "mapped files");
  dataset.set_check([files = std::move(files)] {
    for (const formats::FileBytes& file : files) file.check_mapping();
  });
}

std::string find_file(const std::string& folder, const std::string& name) {
  const std::string path = (std::filesystem::path(folder) / name).string();
  std::error_code none;
  for (const std::string& candidate : {path, path + ".gz"})
    if (std::filesystem::is_regular_file(candidate, none)) return candidate;
  return "";
}

}  // namespace sheaf::data
