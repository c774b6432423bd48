#include "sheaf/formats/arrays/idx.hpp"

#include "sheaf/data/formats/array_files.hpp"
#include "sheaf/data/formats/file.hpp"
#include "sheaf/formats/bytes/memory.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::data {
namespace {

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

}  // namespace

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

}  // namespace sheaf::data
