#pragma once
// The dictionary in the header of a .npy file.

#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/base/dtype.hpp"
#include "sheaf/tensor/files/byte_reader.hpp"

namespace sheaf::tensor {

struct NpyHeader {
  DType dtype = DType::kF32;
  bool is_swapped = false;  // the elements are not in native byte order
  bool is_fortran_order = false;
  std::vector<std::int64_t> shape;

  std::int64_t count() const;  // number of elements
};

// Consumes magic, version, length and dictionary, up to the elements.
NpyHeader take_npy_header(ByteReader& reader);

// The complete header from magic to padding; its size is a multiple of 64
// bytes.
std::string make_npy_header(DType dtype,
                            const std::vector<std::int64_t>& shape);

}  // namespace sheaf::tensor
