#pragma once
// The names that torch.save gives to the storages of each element type.

#include <torch/types.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "sheaf/base/error.hpp"

namespace sheaf::tensor {

inline constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10>
    kStorageTypes{{{"DoubleStorage", at::kDouble},
                   {"FloatStorage", at::kFloat},
                   {"HalfStorage", at::kHalf},
                   {"BFloat16Storage", at::kBFloat16},
                   {"LongStorage", at::kLong},
                   {"IntStorage", at::kInt},
                   {"ShortStorage", at::kShort},
                   {"CharStorage", at::kChar},
                   {"ByteStorage", at::kByte},
                   {"BoolStorage", at::kBool}}};

inline std::string_view storage_type_of(at::ScalarType type) {
  for (const auto& [name, known] : kStorageTypes)
    if (known == type) return name;
  throw InternalError(concat("no storage is known for ", c10::toString(type)));
}

inline std::optional<at::ScalarType> type_of_storage(std::string_view name) {
  for (const auto& [known, type] : kStorageTypes)
    if (known == name) return type;
  return std::nullopt;
}

}  // namespace sheaf::tensor
