// An IDX file: two zero bytes, one byte for the element type, one byte for the
// number of dimensions, 4 bytes for each dimension, then the elements. All
// numbers are big-endian.
#include "sheaf/formats/arrays/idx.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "sheaf/base/error.hpp"

namespace sheaf::formats {
namespace {

constexpr std::size_t kIdxWordBytes = 4;

struct IdxType {
  std::uint8_t code;
  DType type;
};
constexpr std::array<IdxType, 6> kIdxTypes{{{0x08, DType::kU8},
                                            {0x09, DType::kI8},
                                            {0x0b, DType::kI16},
                                            {0x0c, DType::kI32},
                                            {0x0d, DType::kF32},
                                            {0x0e, DType::kF64}}};

std::int64_t idx_word(const FileBytes& file, std::size_t offset) {
  const std::uint8_t* at = file.data() + offset;
  return std::int64_t{at[0]} << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

DType idx_type_of(const FileBytes& file) {
  const std::uint8_t code = file.data()[2];
  for (const IdxType& known : kIdxTypes)
    if (known.code == code) return known.type;
  file.fail(2, concat("unknown element type ", int{code}));
}

IdxArray read_idx_header(FileBytes file) {
  if (file.size < kIdxWordBytes)
    file.fail(file.size, "the file ends within its header");
  if (file.data()[0] != 0 || file.data()[1] != 0)
    file.fail(0, "not an IDX file: it does not begin with two zero bytes");
  const DType type = idx_type_of(file);
  const std::size_t dimensions = file.data()[3];
  if (dimensions == 0) file.fail(3, "the array has no dimensions");
  const std::size_t header_bytes = kIdxWordBytes * (1 + dimensions);
  if (file.size < header_bytes)
    file.fail(file.size, "the file ends within its header");
  IdxArray array{std::move(file), type, {}, header_bytes};
  for (std::size_t at = kIdxWordBytes; at < header_bytes; at += kIdxWordBytes)
    array.shape.push_back(idx_word(array.file, at));
  return array;
}

// The product of the dimensions of a corrupt header may overflow. Those after a
// dimension of 0 count as well: strides are products of them.
std::size_t idx_element_bytes(const IdxArray& array) {
  auto product = static_cast<std::int64_t>(size_of(array.type));
  bool is_empty = false;
  for (const std::int64_t size : array.shape) {
    is_empty = is_empty || size == 0;
    const std::int64_t factor = std::max<std::int64_t>(size, 1);
    if (product > std::numeric_limits<std::int64_t>::max() / factor)
      array.file.fail(kIdxWordBytes,
                      "its dimensions are too large for any file");
    product *= factor;
  }
  return is_empty ? 0 : static_cast<std::size_t>(product);
}

void check_idx_size(const IdxArray& array) {
  const FileBytes& file = array.file;
  const std::size_t there = file.size - array.header_bytes;
  const std::size_t wanted = idx_element_bytes(array);
  if (there < wanted)
    file.fail(file.size, concat("the file is truncated: its header specifies ",
                                wanted, " bytes of elements, it has ", there));
  if (there > wanted)
    file.fail(array.header_bytes + wanted,
              concat("the file is ", there - wanted,
                     " bytes longer than its header specifies"));
}

}  // namespace

IdxArray parse_idx(FileBytes file) {
  IdxArray array = read_idx_header(std::move(file));
  check_idx_size(array);
  return array;
}

void copy_elements(const IdxArray& array, std::uint8_t* to) {
  const std::span<const std::uint8_t> from = array.elements();
  const std::size_t width = size_of(array.type);
  if (width == 1 || std::endian::native == std::endian::big) {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
    return;
  }
  for (std::size_t i = 0; i < from.size(); i += width)
    std::reverse_copy(from.begin() + i, from.begin() + i + width, to + i);
}

void check_idx_labels(const IdxArray& labels, std::int64_t classes) {
  if (labels.type != DType::kU8 || labels.shape.size() != 1)
    labels.file.fail(2, "labels must be bytes in one dimension");
  if (classes == 0) return;
  const std::span<const std::uint8_t> all = labels.elements();
  const auto bad =
      std::find_if(all.begin(), all.end(),
                   [&](std::uint8_t label) { return label >= classes; });
  if (bad != all.end())
    labels.file.fail(
        labels.header_bytes + static_cast<std::size_t>(bad - all.begin()),
        concat("label ", int{*bad}, " is not one of the ", classes,
               " classes"));
}

void check_idx_counts(const IdxArray& images, const IdxArray& labels) {
  if (images.shape[0] != labels.shape[0])
    labels.file.fail(kIdxWordBytes,
                     concat("there are ", labels.shape[0], " labels for the ",
                            images.shape[0], " images of ", images.file.path));
}

}  // namespace sheaf::formats
