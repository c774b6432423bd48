#include "sheaf/base/dtype.hpp"

#include <array>
#include <string>

#include "sheaf/base/error.hpp"

namespace sheaf {
namespace {

struct TypeInfo {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<TypeInfo, kDTypeCount> kTypes{{{"f64", 8},
                                                    {"f32", 4},
                                                    {"f16", 2},
                                                    {"bf16", 2},
                                                    {"i64", 8},
                                                    {"i32", 4},
                                                    {"i16", 2},
                                                    {"i8", 1},
                                                    {"u8", 1},
                                                    {"bool", 1}}};

}  // namespace

std::size_t size_of(DType dtype) noexcept {
  return kTypes[static_cast<std::size_t>(dtype)].bytes;
}

std::string_view name_of(DType dtype) noexcept {
  return kTypes[static_cast<std::size_t>(dtype)].name;
}

DType parse_dtype(std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return static_cast<DType>(i);
    known += (i ? ", " : "") + std::string(kTypes[i].name);
  }
  throw UsageError(
      concat("unknown element type '", name, "'; use one of ", known));
}

float to_float(Half value) noexcept {
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 0x1f)  // infinity and NaN
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24, exactly
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) |
                              (mantissa << 13));
}

Half to_half(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const auto with_sign = [sign](std::uint32_t half) {
    return Half{static_cast<std::uint16_t>(sign | half)};
  };
  if (magnitude > 0x7f800000u)  // NaN stays NaN
    return with_sign(0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return with_sign(0x7c00u);  // to infinity
  if (magnitude < 0x38800000u) {  // below the smallest normal half
    // After adding 0.5, the low mantissa bits hold the value in units of 2^-24,
    // rounded to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return with_sign(std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u);
  }
  return with_sign(
      (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13);
}

}  // namespace sheaf
