#pragma once
// The .npy format in memory: a header (a Python dictionary as text), followed
// by the elements.

#include <torch/types.h>

#include <string>
#include <string_view>

#include "sheaf/tensor/files/byte_reader.hpp"

namespace sheaf::tensor {

// Parses the reader's bytes, which must be exactly one array.
at::Tensor parse_npy(ByteReader& reader);

// The header for the elements of `tensor` in C order.
std::string npy_header(const at::Tensor& tensor);

// A contiguous CPU tensor with the same elements; shares memory if possible.
// Throws UsageError for undefined and sparse tensors.
at::Tensor plain(const at::Tensor& tensor);
// The memory of a contiguous CPU tensor, which must outlive the view.
std::string_view bytes_of(const at::Tensor& tensor);

// Reverses the bytes of each element.
void swap_bytes(const at::Tensor& tensor);

}  // namespace sheaf::tensor
