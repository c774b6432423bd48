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
  bool is_swapped = false;  // the bytes of elements are the other way round
  bool is_fortran_order = false;
  std::vector<std::int64_t> shape;

  std::int64_t count() const;  // of elements
};

// Takes magic, version, length and dictionary; the elements are next.
NpyHeader take_npy_header(ByteReader& reader);

// Magic to padding; the elements begin at a multiple of 64 bytes.
std::string make_npy_header(DType dtype,
                            const std::vector<std::int64_t>& shape);

}  // namespace sheaf::tensor
