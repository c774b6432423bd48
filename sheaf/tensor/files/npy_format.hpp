#pragma once
// The .npy format in memory: a header (a Python dictionary as text), followed
// by the elements.

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/base/dtype.hpp"
#include "sheaf/formats/byte_reader.hpp"

namespace sheaf::tensor {

struct NpyHeader {
  DType dtype = DType::kF32;
  bool is_swapped = false;  // the elements are not in native byte order
  bool is_fortran_order = false;
  std::vector<std::int64_t> shape;

  std::int64_t count() const;  // number of elements
};

// Consumes magic, version, length and dictionary, up to the elements.
NpyHeader take_npy_header(formats::ByteReader& reader);

// The complete header from magic to padding; its size is a multiple of 64
// bytes.
std::string make_npy_header(DType dtype,
                            const std::vector<std::int64_t>& shape);

// Parses the reader's bytes, which must be exactly one array.
at::Tensor parse_npy(formats::ByteReader& reader);

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
