#include "sheaf/tensor/files/numpy.hpp"

#include <array>
#include <set>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/formats/archives/zip.hpp"
#include "sheaf/tensor/files/elements.hpp"

namespace sheaf::tensor {
namespace {

constexpr std::string_view kSuffix = ".npy";

at::Tensor load_entry(const formats::ZipReader& archive,
                      const formats::ZipEntry& entry) {
  const formats::ZipContent content = archive.read(entry);
  formats::ByteReader reader(
      concat(archive.name(), ", entry ", formats::shown(entry.name)),
      content.bytes());
  return tensor_of(formats::read_npy(reader));
}

}  // namespace

at::Tensor load_npy(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  formats::ByteReader reader(path.string(), bytes);
  return tensor_of(formats::read_npy(reader));
}

void save_npy(const std::filesystem::path& path, const at::Tensor& tensor) {
  const at::Tensor elements = plain(tensor);
  const std::string header = npy_header(elements);
  const std::array<std::string_view, 2> pieces{header, bytes_of(elements)};
  write_pieces_atomically(path, pieces);
}

NamedTensors load_npz(const std::filesystem::path& path) {
  const formats::ZipReader archive(path);
  NamedTensors arrays;
  std::set<std::string> names;
  for (const formats::ZipEntry& entry : archive.entries()) {
    std::string name = entry.name;
    if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
    if (!names.insert(name).second)
      throw IoError(concat(archive.name(), ": byte ", entry.offset,
                           ": two arrays have the name '", formats::shown(name),
                           "'; rename one of them"));
    arrays.emplace_back(name, load_entry(archive, entry));
  }
  return arrays;
}

void save_npz(const std::filesystem::path& path, const NamedTensors& arrays) {
  std::vector<std::pair<std::string, at::Tensor>> kept;
  for (const auto& [name, tensor] : arrays) {
    const at::Tensor elements = plain(tensor);
    kept.emplace_back(npy_header(elements), elements);
  }
  formats::ZipWriter archive;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    archive.add(concat(arrays[i].first, kSuffix),
                {kept[i].first, bytes_of(kept[i].second)});
  archive.save(path);
}

}  // namespace sheaf::tensor
