#include "sheaf/tensor/files/elements.hpp"

#include <numeric>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/formats/arrays/elements.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::tensor {

at::Tensor tensor_of(DType dtype, bool is_swapped, std::string_view bytes) {
  const auto count = static_cast<std::int64_t>(bytes.size() / size_of(dtype));
  const at::Tensor flat = at::empty({count}, scalar_type_of(dtype));
  formats::copy_elements(dtype, is_swapped, bytes.substr(0, flat.nbytes()),
                         flat.data_ptr());
  return flat;
}

at::Tensor tensor_of(const formats::NpyArray& array) {
  const formats::NpyHeader& header = array.header;
  const at::Tensor flat =
      tensor_of(header.dtype, header.is_swapped, array.elements);
  if (!header.is_fortran_order) return flat.view(header.shape);
  // An array in Fortran order is its transpose in C order.
  const std::vector<std::int64_t> reversed(header.shape.rbegin(),
                                           header.shape.rend());
  std::vector<std::int64_t> axes(reversed.size());
  std::iota(axes.rbegin(), axes.rend(), 0);
  return flat.view(reversed).permute(axes).contiguous();
}

std::string npy_header(const at::Tensor& tensor) {
  return formats::make_npy_header(dtype_of(tensor.scalar_type()),
                                  tensor.sizes().vec());
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

}  // namespace sheaf::tensor
