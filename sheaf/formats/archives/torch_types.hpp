#pragma once
// The names that torch.save gives to the storages of each element type.

#include <array>
#include <optional>
#include <string_view>

#include "sheaf/base/dtype.hpp"

namespace sheaf::formats {

// Indexed by DType.
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

}  // namespace sheaf::formats
