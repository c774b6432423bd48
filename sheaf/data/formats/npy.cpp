#include "sheaf/formats/arrays/npy.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/data/formats/array_files.hpp"
#include "sheaf/data/formats/file.hpp"
#include "sheaf/tensor/files/elements.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::data {
namespace {

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
