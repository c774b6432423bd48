#pragma once
// The archives of Python's torch.save, as descriptions of tensors and bytes of
// their storages. No code from the file is executed.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/base/dtype.hpp"
#include "sheaf/formats/archives/pickle.hpp"
#include "sheaf/formats/archives/zip.hpp"

namespace sheaf::formats {

// The names that torch.save gives to the storages of each element type, indexed
// by DType.
inline constexpr std::array<std::string_view, kDTypeCount> kTorchStorages{
    "DoubleStorage", "FloatStorage", "HalfStorage",  "BFloat16Storage",
    "LongStorage",   "IntStorage",   "ShortStorage", "CharStorage",
    "ByteStorage",   "BoolStorage"};

inline std::string_view torch_storage_of(DType dtype) {
  return kTorchStorages[static_cast<std::size_t>(dtype)];
}

inline std::optional<DType> type_of_torch_storage(std::string_view name) {
  for (std::size_t i = 0; i < kTorchStorages.size(); ++i)
    if (kTorchStorages[i] == name) return static_cast<DType>(i);
  return std::nullopt;
}

// Memory that tensors share.
struct TorchStorage {
  DType dtype = DType::kF32;
  std::int64_t count = 0;  // of elements
  const ZipEntry* entry = nullptr;
};

// A view of a storage: all of its elements lie inside. Offset and strides are
// in elements and not negative. It has at most kMaxAxes axes, and its bytes, if
// it was copied, would fit 63 bits; strides of 0 make it larger than its
// storage.
struct TorchTensor {
  std::string name;
  std::size_t storage = 0;  // in TorchState::storages
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
};

// A dictionary of tensors in its order. Names differ.
struct TorchState {
  std::vector<TorchStorage> storages;
  std::vector<TorchTensor> tensors;
};

class TorchArchive {
 public:
  // Throws IoError, which names the file, if it is not an archive of
  // torch.save.
  explicit TorchArchive(const std::filesystem::path& path);
  // Errors name the archive `name`.
  TorchArchive(std::string name, std::string bytes);

  // The tensors of the saved dictionary; with a key, of the dictionary that it
  // holds there. Throws IoError if there are none; the message lists the keys
  // that hold some. The archive must outlive the result.
  TorchState state(std::string_view key) const;

  // The bytes of a storage's elements, verified against their checksum.
  ZipContent read(const TorchStorage& storage) const;
  // Whether the elements are not in native byte order.
  bool is_swapped() const { return is_swapped_; }

 private:
  void find_entries();
  bool read_byte_order() const;
  TorchState state_of(const PickleValue& root, std::string_view key) const;
  PickleValue at_key(const PickleValue& root, std::string_view key) const;
  [[noreturn]] void fail(const std::string& message) const;

  ZipReader zip_;
  const ZipEntry* pickle_ = nullptr;
  std::string folder_;
  bool is_swapped_ = false;
};

}  // namespace sheaf::formats
