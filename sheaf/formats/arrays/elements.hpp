#pragma once
// Elements of arrays as bytes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sheaf/base/dtype.hpp"

namespace sheaf::formats {

inline constexpr std::size_t kMaxAxes = 64;  // numpy's and libtorch's

// The number of elements of an array with these axis sizes; nullopt if one is
// negative, or if their bytes do not fit 63 bits even when axes of size 0 are
// not counted.
std::optional<std::int64_t> count_elements(DType dtype,
                                           std::span<const std::int64_t> sizes);

// Copies elements of `dtype` from a file to memory of the same size. Those of
// another byte order (`is_swapped`) are reversed. Files may use any byte except
// 0 as true; a C++ bool must be 1.
void copy_elements(DType dtype, bool is_swapped, std::string_view from,
                   void* to);

}  // namespace sheaf::formats
