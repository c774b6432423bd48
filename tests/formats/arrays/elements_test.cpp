#include "sheaf/formats/arrays/elements.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace sheaf::formats {
namespace {

using Axes = std::vector<std::int64_t>;

TEST(Elements, AreCounted) {
  EXPECT_EQ(count_elements(DType::kF32, Axes{}), 1);
  EXPECT_EQ(count_elements(DType::kF32, Axes{2, 3}), 6);
  EXPECT_EQ(count_elements(DType::kF32, Axes{2, 0, 3}), 0);
  EXPECT_EQ(count_elements(DType::kF32, Axes{2, -3}), std::nullopt);
}

TEST(Elements, TheirBytesFit63Bits) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(count_elements(DType::kU8, Axes{kMost}), kMost);
  EXPECT_EQ(count_elements(DType::kF16, Axes{kMost}), std::nullopt);
  EXPECT_EQ(count_elements(DType::kF64, Axes{kMost / 8}), kMost / 8);
  EXPECT_EQ(count_elements(DType::kF64, Axes{kMost / 8, 2}), std::nullopt);
  EXPECT_EQ(count_elements(DType::kU8, Axes{kMost, 0, 2}), std::nullopt);
}

std::string copied(DType dtype, bool is_swapped, const std::string& from) {
  std::string to(from.size(), 'x');
  copy_elements(dtype, is_swapped, from, to.data());
  return to;
}

TEST(Elements, AreCopied) {
  for (int i = 0; i < kDTypeCount - 1; ++i)
    EXPECT_EQ(copied(static_cast<DType>(i), false, "abcdefgh"), "abcdefgh");
  copy_elements(DType::kF32, false, {}, nullptr);
}

TEST(Elements, OfAnotherByteOrderAreReversed) {
  EXPECT_EQ(copied(DType::kF64, true, "abcdefgh"), "hgfedcba");
  EXPECT_EQ(copied(DType::kI32, true, "abcdefgh"), "dcbahgfe");
  EXPECT_EQ(copied(DType::kBF16, true, "abcdefgh"), "badcfehg");
  EXPECT_EQ(copied(DType::kI8, true, "abcdefgh"), "abcdefgh");
}

TEST(Elements, BoolsAreZeroOrOne) {
  const std::string from("\0\1\2\x80\xff", 5);
  EXPECT_EQ(copied(DType::kBool, false, from), std::string("\0\1\1\1\1", 5));
  EXPECT_EQ(copied(DType::kBool, true, from), std::string("\0\1\1\1\1", 5));
}

}  // namespace
}  // namespace sheaf::formats
