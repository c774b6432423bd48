#pragma once
// IDX, the format of MNIST and Fashion-MNIST: one array in a file, plain or
// compressed with gzip.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sheaf/base/dtype.hpp"
#include "sheaf/formats/bytes/file_bytes.hpp"

namespace sheaf::formats {

struct IdxArray {
  FileBytes file;
  DType type = DType::kU8;
  std::vector<std::int64_t> shape = {};
  std::size_t header_bytes = 0;

  // The elements as stored, with the most significant byte first.
  std::span<const std::uint8_t> elements() const {
    return file.bytes().subspan(header_bytes);
  }
};

// Reads the header. Throws IoError, which names the file and the offset, if it
// is invalid or does not match the size of the file.
IdxArray parse_idx(FileBytes file);

// Copies the elements to memory, in the byte order of this machine.
void copy_elements(const IdxArray& array, std::uint8_t* to);

// Throws IoError, which names the file and the offset, unless the array has one
// dimension of bytes, all below `classes`. 0: any byte is valid.
void check_idx_labels(const IdxArray& labels, std::int64_t classes);

// Throws IoError unless there is one label for each image.
void check_idx_counts(const IdxArray& images, const IdxArray& labels);

}  // namespace sheaf::formats
