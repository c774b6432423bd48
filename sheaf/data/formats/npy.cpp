#include "sheaf/base/error.hpp"
#include "sheaf/data/formats/array_files.hpp"
#include "sheaf/data/formats/file.hpp"
#include "sheaf/tensor/files/npy_format.hpp"
#include "sheaf/tensor/files/numpy.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::data {
namespace {

formats::ByteReader reader_of(const formats::FileBytes& file) {
  return {file.path, {reinterpret_cast<const char*>(file.data()), file.size}};
}

// The array in the memory of the file, or an undefined tensor if its layout or
// type needs a conversion.
at::Tensor view_npy(const formats::FileBytes& file) {
  if (file.size == 0) return {};
  formats::ByteReader reader = reader_of(file);
  const tensor::NpyHeader header = tensor::take_npy_header(reader);
  const at::ScalarType type = tensor::scalar_type_of(header.dtype);
  const auto width = static_cast<std::int64_t>(at::elementSize(type));
  const auto offset = static_cast<std::int64_t>(reader.offset());
  const std::int64_t bytes = header.count() * width;
  // A C++ bool must be 0 or 1; parse_npy() converts other bytes.
  const bool is_plain = !header.is_swapped && !header.is_fortran_order &&
                        header.dtype != DType::kBool && offset % width == 0 &&
                        bytes > 0 &&
                        static_cast<std::int64_t>(reader.left()) == bytes;
  if (!is_plain) return {};
  return tensor_of(file).narrow(0, offset, bytes).view(type).view(header.shape);
}

at::Tensor parse_file(const formats::FileBytes& file) {
  formats::ByteReader reader = reader_of(file);
  return tensor::parse_npy(reader);
}

}  // namespace

std::shared_ptr<TensorDataset> read_npy_dataset(const std::string& data,
                                                const std::string& target) {
  const formats::FileBytes file = formats::map_bytes(data);
  const at::Tensor viewed = view_npy(file);
  const at::Tensor examples = viewed.defined() ? viewed : parse_file(file);
  const at::Tensor targets = parse_file(formats::read_bytes(target));
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
