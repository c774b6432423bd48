#pragma once
// Element types of buffers, and storage types for the two 16-bit floats.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace sheaf {

enum class DType : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool
};
inline constexpr int kDTypeCount = 10;

std::size_t size_of(DType dtype) noexcept;
std::string_view name_of(DType dtype) noexcept;  // "f32", "bf16", "bool" ...
DType parse_dtype(std::string_view name);        // UsageError lists the names
inline constexpr bool is_half(DType dtype) noexcept {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}
inline constexpr bool is_float(DType dtype) noexcept {
  return dtype <= DType::kBF16;
}

// IEEE binary16. Conversions round to nearest, ties to even, and keep NaN.
struct Half {
  std::uint16_t bits = 0;
  bool operator==(const Half&) const = default;
};
// The upper 16 bits of an IEEE binary32. Conversions round as for Half.
struct BFloat16 {
  std::uint16_t bits = 0;
  bool operator==(const BFloat16&) const = default;
};

float to_float(Half value) noexcept;
Half to_half(float value) noexcept;
inline float to_float(BFloat16 value) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
inline BFloat16 to_bfloat16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)  // NaN stays NaN
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {
      static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

// The DType of a C++ element type.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::kI16;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::kI8;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<std::remove_cv_t<T>>::value;

}  // namespace sheaf
