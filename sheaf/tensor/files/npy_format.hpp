#pragma once
// The format .npy, in memory: a header, which is a Python dictionary as text,
// and the elements.

#include <torch/types.h>

#include <string>
#include <string_view>

#include "sheaf/tensor/files/byte_reader.hpp"

namespace sheaf::tensor {

// The one array that the reader's bytes are.
at::Tensor parse_npy(ByteReader& reader);

// What stands before the elements of `tensor` in C order.
std::string npy_header(const at::Tensor& tensor);

// A contiguous CPU tensor of the same elements; shares memory where it can.
at::Tensor plain(const at::Tensor& tensor);
// The memory of a plain tensor.
std::string_view bytes_of(const at::Tensor& tensor);

// Turns each element's bytes round.
void swap_bytes(const at::Tensor& tensor);

}  // namespace sheaf::tensor
