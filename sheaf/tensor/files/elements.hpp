#pragma once
// Elements of tensors as the bytes of a file.

#include <torch/types.h>

#include <string>
#include <string_view>

#include "sheaf/base/dtype.hpp"
#include "sheaf/formats/arrays/npy.hpp"

namespace sheaf::tensor {

// A new one-dimensional CPU tensor of the elements; see
// formats::copy_elements().
at::Tensor tensor_of(DType dtype, bool is_swapped, std::string_view bytes);
// A new contiguous CPU tensor.
at::Tensor tensor_of(const formats::NpyArray& array);

// The header for the elements of `tensor` in C order.
std::string npy_header(const at::Tensor& tensor);

// A contiguous CPU tensor with the same elements; shares memory if possible.
// Throws UsageError for undefined and sparse tensors.
at::Tensor plain(const at::Tensor& tensor);
// The memory of a contiguous CPU tensor, which must outlive the view.
std::string_view bytes_of(const at::Tensor& tensor);

}  // namespace sheaf::tensor
