// An IDX file: two zero bytes, one byte for the element type, one byte for the
// number of dimensions, 4 bytes for each dimension, then the elements. All
// numbers are big-endian.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "sheaf/base/error.hpp"
#include "sheaf/data/formats/array_files.hpp"
#include "sheaf/data/formats/file.hpp"

namespace sheaf::data {
namespace {

constexpr std::int64_t kWordBytes = 4;

struct IdxType {
  std::uint8_t code;
  at::ScalarType type;
};
constexpr std::array<IdxType, 6> kTypes{{{0x08, at::kByte},
                                         {0x09, at::kChar},
                                         {0x0b, at::kShort},
                                         {0x0c, at::kInt},
                                         {0x0d, at::kFloat},
                                         {0x0e, at::kDouble}}};

struct IdxHeader {
  at::ScalarType type = at::kByte;
  std::vector<std::int64_t> shape;

  std::int64_t bytes() const {
    return kWordBytes * (1 + static_cast<std::int64_t>(shape.size()));
  }
};

std::int64_t read_word(const FileContent& file, std::int64_t offset) {
  const std::uint8_t* at = file.data() + offset;
  return std::int64_t{at[0]} << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

at::ScalarType type_of(const FileContent& file) {
  const std::uint8_t code = file.data()[2];
  for (const IdxType& known : kTypes)
    if (known.code == code) return known.type;
  file.fail(2, concat("unknown element type ", int{code}));
}

IdxHeader read_header(const FileContent& file) {
  if (file.size() < kWordBytes)
    file.fail(file.size(), "the file ends within its header");
  if (file.data()[0] != 0 || file.data()[1] != 0)
    file.fail(0, "not an IDX file: it does not begin with two zero bytes");
  IdxHeader header{type_of(file), {}};
  header.shape.resize(file.data()[3]);
  if (header.shape.empty()) file.fail(3, "the array has no dimensions");
  if (file.size() < header.bytes())
    file.fail(file.size(), "the file ends within its header");
  for (std::size_t i = 0; i < header.shape.size(); ++i)
    header.shape[i] =
        read_word(file, kWordBytes * (1 + static_cast<std::int64_t>(i)));
  return header;
}

// The product of the dimensions of a corrupt header may overflow.
void check_size(const FileContent& file, const IdxHeader& header) {
  const std::int64_t there = file.size() - header.bytes();
  std::int64_t wanted = static_cast<std::int64_t>(at::elementSize(header.type));
  for (const std::int64_t size : header.shape) {
    if (size != 0 && wanted > std::numeric_limits<std::int64_t>::max() / size)
      file.fail(kWordBytes, "its dimensions are too large for any file");
    wanted *= size;
  }
  if (there < wanted)
    file.fail(file.size(),
              concat("the file is truncated: its header specifies ", wanted,
                     " bytes of elements, it has ", there));
  if (there > wanted)
    file.fail(header.bytes() + wanted,
              concat("the file is ", there - wanted,
                     " bytes longer than its header specifies"));
}

// Converts big-endian elements to host byte order.
at::Tensor in_host_order(const at::Tensor& bytes, std::int64_t element_bytes) {
  if (element_bytes == 1) return bytes;
  return bytes.view({-1, element_bytes}).flip(1).contiguous();
}

at::Tensor elements_of(const FileContent& file, const IdxHeader& header) {
  const auto element_bytes =
      static_cast<std::int64_t>(at::elementSize(header.type));
  const at::Tensor bytes =
      file.bytes.narrow(0, header.bytes(), file.size() - header.bytes());
  if (header.type == at::kByte) return bytes.view(header.shape);
  const at::Tensor turned = in_host_order(bytes, element_bytes);
  at::Tensor result = at::empty(header.shape, at::TensorOptions(header.type));
  if (result.numel() > 0)
    std::memcpy(result.data_ptr(), turned.data_ptr(), result.nbytes());
  return result;
}

struct IdxFile {
  FileContent file;
  IdxHeader header;
  at::Tensor array;
};

IdxFile open_idx(const std::string& path) {
  IdxFile result{map_file(path), {}, {}};
  result.header = read_header(result.file);
  check_size(result.file, result.header);
  result.array = elements_of(result.file, result.header);
  return result;
}

void check_labels(const IdxFile& labels, std::int64_t classes) {
  if (labels.header.type != at::kByte || labels.header.shape.size() != 1)
    labels.file.fail(2, "labels must be bytes in one dimension");
  if (classes == 0) return;
  const std::uint8_t* first = labels.file.data() + labels.header.bytes();
  const std::uint8_t* last = labels.file.data() + labels.file.size();
  const std::uint8_t* bad = std::find_if(
      first, last, [&](std::uint8_t label) { return label >= classes; });
  if (bad != last)
    labels.file.fail(bad - labels.file.data(),
                     concat("label ", int{*bad}, " is not one of the ", classes,
                            " classes"));
}

void check_counts(const IdxFile& images, const IdxFile& labels) {
  const std::int64_t image_count = images.header.shape[0];
  const std::int64_t label_count = labels.header.shape[0];
  if (image_count != label_count)
    labels.file.fail(kWordBytes,
                     concat("there are ", label_count, " labels for the ",
                            image_count, " images of ", images.file.path));
}

}  // namespace

at::Tensor read_idx(const std::string& path) { return open_idx(path).array; }

std::shared_ptr<TensorDataset> read_idx_dataset(const std::string& images,
                                                const std::string& labels,
                                                const IdxOptions& options) {
  IdxFile image_file = open_idx(images);
  const IdxFile label_file = open_idx(labels);
  check_labels(label_file, options.classes);
  check_counts(image_file, label_file);
  at::Tensor array = image_file.array;
  if (array.dim() == 3) array = array.unsqueeze(1);
  auto dataset = std::make_shared<TensorDataset>(
      array, label_file.array, options.classes, options.class_names);
  // Elements of several bytes were copied to memory to swap their bytes.
  if (array.scalar_type() == at::kByte)
    dataset->set_source(source_of(image_file.file));
  return dataset;
}

}  // namespace sheaf::data
