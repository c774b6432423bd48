#include "sheaf/formats/arrays/elements.hpp"

#include <algorithm>
#include <cstring>

namespace sheaf::formats {

std::optional<std::int64_t> count_elements(
    DType dtype, std::span<const std::int64_t> sizes) {
  auto bytes = static_cast<std::int64_t>(size_of(dtype));
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    if (size > 0 && __builtin_mul_overflow(bytes, size, &bytes))
      return std::nullopt;
    count *= size;
  }
  return count;
}

void copy_elements(DType dtype, bool is_swapped, std::string_view from,
                   void* to) {
  if (from.empty()) return;
  auto* bytes = static_cast<char*>(to);
  if (dtype == DType::kBool) {
    for (std::size_t i = 0; i < from.size(); ++i) bytes[i] = from[i] != 0;
    return;
  }
  std::memcpy(bytes, from.data(), from.size());
  const std::size_t size = size_of(dtype);
  if (!is_swapped || size == 1) return;
  for (std::size_t i = 0; i + size <= from.size(); i += size)
    std::reverse(bytes + i, bytes + i + size);
}

}  // namespace sheaf::formats
