#pragma once
// The .npy format in memory: a header (a Python dictionary as text), followed
// by the elements.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/base/dtype.hpp"
#include "sheaf/formats/bytes/byte_reader.hpp"

namespace sheaf::formats {

struct NpyHeader {
  DType dtype = DType::kF32;
  bool is_swapped = false;  // the elements are not in native byte order
  bool is_fortran_order = false;
  std::vector<std::int64_t> shape;  // at most kMaxAxes

  std::int64_t count() const;  // number of elements
  std::int64_t bytes() const;  // their size, which fits 63 bits
};

// Consumes magic, version, length and dictionary, up to the elements.
NpyHeader take_npy_header(ByteReader& reader);

struct NpyArray {
  NpyHeader header;
  // header.bytes() of the reader's bytes. Those of bools may have any value:
  // copy_elements() converts them.
  std::string_view elements;
};

// Reads the reader's bytes, which must be exactly one array.
NpyArray read_npy(ByteReader& reader);

// The complete header from magic to padding; its size is a multiple of 64
// bytes.
std::string make_npy_header(DType dtype,
                            const std::vector<std::int64_t>& shape);

}  // namespace sheaf::formats
