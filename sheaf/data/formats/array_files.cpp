#include "sheaf/data/formats/array_files.hpp"

#include <filesystem>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/formats/arrays/idx.hpp"
#include "sheaf/formats/arrays/npy.hpp"
#include "sheaf/formats/bytes/memory.hpp"
#include "sheaf/tensor/files/elements.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::data {
namespace {

// Declares that the dataset reads the memory of these files: its source becomes
// "mapped files" or "files decompressed into memory", and a batch is an IoError
// once one of them was truncated. Checks that for what was read so far.
void set_files(TensorDataset& dataset, std::vector<formats::FileBytes> files) {
  dataset.set_source(files.back().was_unpacked
                         ? "files decompressed into memory"
                         : "mapped files");
  dataset.set_check([files = std::move(files)] {
    for (const formats::FileBytes& file : files) file.check_mapping();
  });
}

std::vector<std::string> names_of(CifarKind kind) {
  if (kind != CifarKind::kCifar10) return {};
  return {"airplane", "automobile", "bird",  "cat",  "deer",
          "dog",      "frog",       "horse", "ship", "truck"};
}

// The elements: those of one byte in the memory of the file.
at::Tensor elements_of(const formats::IdxArray& array) {
  const at::ScalarType type = tensor::scalar_type_of(array.type);
  if (at::elementSize(type) == 1) {
    const auto begin = static_cast<std::int64_t>(array.header_bytes);
    return tensor_of(array.file).slice(0, begin).view(type).view(array.shape);
  }
  formats::check_memory(array.file.path, "the array", array.elements().size());
  at::Tensor result = at::empty(array.shape, at::TensorOptions(type));
  formats::copy_elements(array, static_cast<std::uint8_t*>(result.data_ptr()));
  return result;
}

formats::NpyArray array_in(const formats::FileBytes& file) {
  formats::ByteReader reader(
      file.path, {reinterpret_cast<const char*>(file.data()), file.size});
  return formats::read_npy(reader);
}

// The array in the memory of the file, or an undefined tensor if its layout or
// type needs a conversion.
at::Tensor view_npy(const formats::FileBytes& file,
                    const formats::NpyArray& array) {
  const formats::NpyHeader& header = array.header;
  const at::ScalarType type = tensor::scalar_type_of(header.dtype);
  const auto width = static_cast<std::int64_t>(at::elementSize(type));
  const std::int64_t offset =
      static_cast<std::int64_t>(file.size) - header.bytes();
  // A C++ bool must be 0 or 1; tensor_of() converts other bytes.
  const bool is_plain = !header.is_swapped && !header.is_fortran_order &&
                        header.dtype != DType::kBool && offset % width == 0 &&
                        header.bytes() > 0;
  if (!is_plain) return {};
  return tensor_of(file)
      .narrow(0, offset, header.bytes())
      .view(type)
      .view(header.shape);
}

}  // namespace

at::Tensor tensor_of(const formats::FileBytes& file) {
  const auto count = static_cast<std::int64_t>(file.size);
  const at::TensorOptions options(at::kByte);
  if (count == 0) return at::empty({0}, options);
  return at::from_blob(
      file.memory.get(), {count},
      [memory = file.memory](void*) mutable { memory.reset(); }, options);
}

std::string find_file(const std::string& folder, const std::string& name) {
  const std::string path = (std::filesystem::path(folder) / name).string();
  std::error_code none;
  for (const std::string& candidate : {path, path + ".gz"})
    if (std::filesystem::is_regular_file(candidate, none)) return candidate;
  return "";
}

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

at::Tensor read_idx(const std::string& path) {
  return elements_of(formats::parse_idx(formats::read_bytes(path)));
}

std::shared_ptr<TensorDataset> read_idx_dataset(const std::string& images,
                                                const std::string& labels,
                                                const IdxOptions& options) {
  const auto image_file = formats::parse_idx(formats::map_bytes(images));
  const auto label_file = formats::parse_idx(formats::read_bytes(labels));
  formats::check_idx_labels(label_file, options.classes);
  formats::check_idx_counts(image_file, label_file);
  at::Tensor array = elements_of(image_file);
  if (array.dim() == 3) array = array.unsqueeze(1);
  auto dataset = std::make_shared<TensorDataset>(
      array, elements_of(label_file), options.classes, options.class_names);
  // Elements of several bytes were copied to memory to swap their bytes.
  if (array.element_size() == 1)
    set_files(*dataset, {image_file.file});
  else
    image_file.file.check_mapping();
  return dataset;
}

std::shared_ptr<TensorDataset> read_npy_dataset(const std::string& data,
                                                const std::string& target) {
  const formats::FileBytes file = formats::map_bytes(data);
  const formats::NpyArray array = array_in(file);
  const at::Tensor viewed = view_npy(file, array);
  const at::Tensor examples =
      viewed.defined() ? viewed : tensor::tensor_of(array);
  const formats::FileBytes target_file = formats::read_bytes(target);
  const at::Tensor targets = tensor::tensor_of(array_in(target_file));
  if (examples.dim() == 0 || targets.dim() == 0 ||
      examples.size(0) != targets.size(0))
    throw IoError(concat(data, " is ", examples.sizes(), " and ", target,
                         " is ", targets.sizes(),
                         "; both must have the same number of rows"));
  auto dataset = std::make_shared<TensorDataset>(examples, targets);
  if (viewed.defined())
    set_files(*dataset, {file});
  else
    file.check_mapping();
  return dataset;
}

}  // namespace sheaf::data
