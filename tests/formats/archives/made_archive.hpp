#pragma once
// Parts of pickles and archives that Python's torch.save could have written.

#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/formats/archives/zip.hpp"
#include "sheaf/formats/bytes/byte_reader.hpp"

namespace sheaf::formats {

inline std::string pickled(const std::string& text) {
  std::string bytes = "X";
  put_u32(bytes, static_cast<std::uint32_t>(text.size()));
  return bytes + text;
}

inline std::string pickled(std::int64_t value) {
  std::string bytes = "\x8a\x08";
  put_u64(bytes, static_cast<std::uint64_t>(value));
  return bytes;
}

inline std::string pickled(const std::vector<std::int64_t>& values) {
  std::string bytes = "(";
  for (const std::int64_t value : values) bytes += pickled(value);
  return bytes + "t";
}

// A program that describes a storage.
inline std::string pickled_storage(const std::string& type,
                                   const std::string& key, std::int64_t count) {
  return concat("(", pickled("storage"), "ctorch\n", type, "\n", pickled(key),
                pickled("cpu"), pickled(count), "tQ");
}

struct PickledTensor {
  std::string builder = "torch._utils\n_rebuild_tensor_v2";
  std::string storage = pickled_storage("FloatStorage", "0", 6);
  std::int64_t offset = 0;
  std::string sizes = pickled(std::vector<std::int64_t>{6});
  std::string strides = pickled(std::vector<std::int64_t>{1});

  std::string text() const {
    return concat("c", builder, "\n(", storage, pickled(offset), sizes, strides,
                  "tR");
  }
};

inline PickledTensor pickled_view(std::int64_t offset,
                                  const std::vector<std::int64_t>& sizes,
                                  const std::vector<std::int64_t>& strides) {
  PickledTensor tensor;
  tensor.offset = offset;
  tensor.sizes = pickled(sizes);
  tensor.strides = pickled(strides);
  return tensor;
}

// A dictionary of one entry.
inline std::string pickled_entry(const std::string& name,
                                 const std::string& value) {
  return "}" + pickled(name) + value + "s";
}

inline std::string pickle_of(const std::string& program) {
  return "\x80\2" + program + ".";
}

// An archive with the pickle of `program` and one storage.
inline std::string archive_of(const std::string& program,
                              const std::string& storage = std::string(24,
                                                                       '\0')) {
  const std::string pickle = pickle_of(program);
  ZipWriter archive;
  archive.add("archive/data.pkl", {pickle});
  archive.add("archive/data/0", {storage});
  return archive.bytes();
}

}  // namespace sheaf::formats
