#include "sheaf/tensor/files/npy_format.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/tensor/files/npy_header.hpp"
#include "sheaf/tensor/groups/dtype.hpp"

namespace sheaf::tensor {
namespace {

// An array in Fortran order is its transpose in C order.
at::Tensor shaped(const at::Tensor& flat, const NpyHeader& header) {
  if (!header.is_fortran_order) return flat.view(header.shape);
  const std::vector<std::int64_t> reversed(header.shape.rbegin(),
                                           header.shape.rend());
  std::vector<std::int64_t> axes(reversed.size());
  std::iota(axes.rbegin(), axes.rend(), 0);
  return flat.view(reversed).permute(axes).contiguous();
}

}  // namespace

at::Tensor parse_npy(ByteReader& reader) {
  const NpyHeader header = take_npy_header(reader);
  // Checked before memory is allocated: the header may claim any size.
  const std::string_view elements = reader.take(
      static_cast<std::size_t>(header.count()) * size_of(header.dtype),
      "the array");
  if (reader.left() > 0)
    reader.fail(concat(reader.left(), " bytes follow the array"));
  // numpy treats all nonzero bytes as true; a C++ bool must be 0 or 1.
  const bool is_bool = header.dtype == DType::kBool;
  const at::Tensor flat = at::empty(
      {header.count()}, is_bool ? at::kByte : scalar_type_of(header.dtype));
  if (!elements.empty())
    std::memcpy(flat.data_ptr(), elements.data(), elements.size());
  if (header.is_swapped) swap_bytes(flat);
  return shaped(is_bool ? flat.to(at::kBool) : flat, header);
}

std::string npy_header(const at::Tensor& tensor) {
  return make_npy_header(dtype_of(tensor.scalar_type()), tensor.sizes().vec());
}

at::Tensor plain(const at::Tensor& tensor) {
  SHEAF_CHECK(tensor.defined() && tensor.layout() == at::kStrided,
              "only dense tensors can be saved; this one is ",
              tensor.defined() ? "sparse: pass tensor.to_dense()"
                               : "undefined: assign one first");
  return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous();
}

std::string_view bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.data_ptr()), tensor.nbytes()};
}

void swap_bytes(const at::Tensor& tensor) {
  auto* bytes = static_cast<char*>(tensor.data_ptr());
  const std::size_t size = tensor.element_size();
  for (std::size_t i = 0; i < tensor.nbytes(); i += size)
    std::reverse(bytes + i, bytes + i + size);
}

}  // namespace sheaf::tensor
