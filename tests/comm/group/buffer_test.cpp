#include "sheaf/comm/group/buffer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace sheaf::comm {
namespace {

TEST(Buffer, IsMadeFromContiguousRanges) {
  std::vector<double> values(3);
  const Buffer buffer = values;
  EXPECT_EQ(buffer.data, values.data());
  EXPECT_EQ(buffer.count, 3u);
  EXPECT_EQ(buffer.dtype, DType::kF64);
  EXPECT_EQ(buffer.bytes(), 24u);
  const ConstBuffer constant = buffer;
  EXPECT_EQ(constant.data, values.data());
  EXPECT_EQ(constant.count, 3u);
  EXPECT_EQ(constant.dtype, DType::kF64);
  EXPECT_EQ(constant.bytes(), 24u);
}

TEST(Buffer, OfConstantsCanOnlyBeRead) {
  const std::array<std::int32_t, 2> values{1, 2};
  const ConstBuffer buffer = values;
  EXPECT_EQ(buffer.data, values.data());
  EXPECT_EQ(buffer.bytes(), 8u);
  static_assert(
      !std::is_constructible_v<Buffer, const std::array<std::int32_t, 2>&>);
  static_assert(!std::is_constructible_v<Buffer, const ConstBuffer&>);
}

TEST(Buffer, IsEmptyByDefault) {
  EXPECT_EQ(Buffer().bytes(), 0u);
  EXPECT_EQ(Buffer().data, nullptr);
  EXPECT_EQ(ConstBuffer().bytes(), 0u);
  std::vector<float> none;
  EXPECT_EQ(Buffer(none).bytes(), 0u);
}

}  // namespace
}  // namespace sheaf::comm
