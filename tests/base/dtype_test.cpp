#include "sheaf/base/dtype.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "sheaf/base/error.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool is_nan(Half value) { return (value.bits & 0x7fff) > 0x7c00; }
bool is_nan(BFloat16 value) { return (value.bits & 0x7fff) > 0x7f80; }

TEST(DType, NamesAndSizes) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
  }
  EXPECT_EQ(size_of(DType::kF64), 8u);
  EXPECT_EQ(size_of(DType::kBF16), 2u);
  EXPECT_EQ(size_of(DType::kBool), sizeof(bool));
  EXPECT_EQ(dtype_of<const float>, DType::kF32);
  EXPECT_TRUE(is_half(DType::kF16));
  EXPECT_FALSE(is_half(DType::kF32));
  EXPECT_FALSE(is_float(DType::kI64));
}

TEST(DType, AnUnknownNameIsAnErrorThatListsTheKnownOnes) {
  expect_throws<UsageError>([] { parse_dtype("f8"); }, {"'f8'", "bf16"});
}

// The value of a binary16 by the definition of its fields.
double value_of(Half half) {
  const double sign = half.bits & 0x8000 ? -1 : 1;
  const int exponent = (half.bits >> 10) & 31;
  const double mantissa = half.bits & 1023;
  if (exponent == 31) return sign * kInfinity;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(DType, EveryHalfKeepsItsValueAndItsBits) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(half);
    if (is_nan(half)) {
      EXPECT_TRUE(std::isnan(wide)) << bits;
      EXPECT_TRUE(is_nan(to_half(wide))) << bits;
      EXPECT_EQ(to_half(wide).bits & 0x8000, half.bits & 0x8000) << bits;
      continue;
    }
    EXPECT_EQ(wide, value_of(half)) << bits;
    EXPECT_EQ(to_half(wide).bits, half.bits) << bits;
  }
}

TEST(DType, EveryBFloat16KeepsItsValueAndItsBits) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const BFloat16 brain{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(brain);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(wide), bits << 16);
    if (is_nan(brain))
      EXPECT_TRUE(is_nan(to_bfloat16(wide))) << bits;
    else
      EXPECT_EQ(to_bfloat16(wide).bits, brain.bits) << bits;
  }
}

// Between two neighbors: the midpoint rounds to the even one, smaller values to
// the lower one, larger values to the upper one.
template <class T, class Narrow>
void expect_nearest_even(unsigned infinity, Narrow narrow) {
  for (unsigned bits = 0; bits + 1 < infinity; ++bits) {
    const float low = to_float(T{static_cast<std::uint16_t>(bits)});
    const float high = to_float(T{static_cast<std::uint16_t>(bits + 1)});
    const auto middle = static_cast<float>((double{low} + double{high}) / 2);
    const unsigned even = bits + (bits & 1);
    ASSERT_EQ(narrow(middle).bits, even) << bits;
    ASSERT_EQ(narrow(-middle).bits, even | 0x8000) << bits;
    ASSERT_EQ(narrow(std::nextafter(middle, 0.0f)).bits, bits) << bits;
    ASSERT_EQ(narrow(std::nextafter(middle, kInfinity)).bits, bits + 1) << bits;
  }
}

TEST(DType, HalvesRoundToNearestEven) {
  expect_nearest_even<Half>(0x7c00, [](float value) { return to_half(value); });
}

TEST(DType, BFloat16sRoundToNearestEven) {
  expect_nearest_even<BFloat16>(0x7f80,
                                [](float value) { return to_bfloat16(value); });
}

TEST(DType, WhatIsTooLargeBecomesInfinity) {
  EXPECT_EQ(to_half(65504.0f).bits, 0x7bff);
  EXPECT_EQ(to_half(65519.99f).bits, 0x7bff);
  EXPECT_EQ(to_half(65520.0f).bits, 0x7c00);
  EXPECT_EQ(to_half(-1e30f).bits, 0xfc00);
  EXPECT_EQ(to_half(kInfinity).bits, 0x7c00);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(to_bfloat16(-kInfinity).bits, 0xff80);
}

TEST(DType, WhatIsTooSmallBecomesZeroWithItsSign) {
  EXPECT_EQ(to_half(0x1p-24f).bits, 1);
  EXPECT_EQ(to_half(0x1p-25f).bits, 0);
  EXPECT_EQ(to_half(-0x1p-25f).bits, 0x8000);
  EXPECT_EQ(to_half(0x1.8p-25f).bits, 1);
  EXPECT_EQ(to_half(std::numeric_limits<float>::denorm_min()).bits, 0);
}

TEST(DType, ANaNOfLowBitsOnlyStaysOne) {
  const float nan = std::bit_cast<float>(0x7f800001u);
  EXPECT_TRUE(is_nan(to_half(nan)));
  EXPECT_TRUE(is_nan(to_bfloat16(nan)));
  EXPECT_TRUE(is_nan(to_half(std::bit_cast<float>(0xffffffffu))));
  EXPECT_TRUE(is_nan(to_bfloat16(std::bit_cast<float>(0xffffffffu))));
}

}  // namespace
}  // namespace sheaf
