#include "sheaf/formats/arrays/idx.hpp"

#include <gtest/gtest.h>

#include "tests/formats/bytes/made_files.hpp"

namespace sheaf::formats::made {
namespace {

IdxArray parsed(const Bytes& bytes) {
  return parse_idx(view_bytes("array.idx", bytes));
}

std::string parse_error(const Bytes& bytes) {
  return io_error([&] { parsed(bytes); });
}

Bytes copied(const Bytes& bytes) {
  const IdxArray array = parsed(bytes);
  Bytes copy(array.elements().size());
  copy_elements(array, copy.data());
  return copy;
}

TEST(Idx, ReadsTypeAndShape) {
  const Bytes bytes = idx_bytes(0x0b, {2, 3}, counting_bytes(12));
  const IdxArray array = parsed(bytes);
  EXPECT_EQ(array.type, DType::kI16);
  EXPECT_EQ(array.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(array.header_bytes, 12u);
  EXPECT_EQ(array.elements().data(), array.file.data() + 12);
  EXPECT_EQ(array.elements().size(), 12u);
}

TEST(Idx, CopiesElementsInTheOrderOfTheMachine) {
  const Bytes elements = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const std::uint8_t type : {0x08, 0x09})
    EXPECT_EQ(copied(idx_bytes(type, {8}, elements)), elements);
  EXPECT_EQ(copied(idx_bytes(0x0b, {4}, elements)),
            (Bytes{2, 1, 4, 3, 6, 5, 8, 7}));
  for (const std::uint8_t type : {0x0c, 0x0d})
    EXPECT_EQ(copied(idx_bytes(type, {2}, elements)),
              (Bytes{4, 3, 2, 1, 8, 7, 6, 5}));
  EXPECT_EQ(copied(idx_bytes(0x0e, {1}, elements)),
            (Bytes{8, 7, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(copied(idx_bytes(0x0e, {0}, {})), Bytes{});
}

TEST(Idx, AFileCutAnywhereIsAnError) {
  const Bytes whole = idx_bytes(8, {2, 3}, counting_bytes(6));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string text = parse_error(
        Bytes(whole.begin(), whole.begin() + static_cast<long>(size)));
    EXPECT_EQ(offset_in(text), static_cast<long>(size)) << text;
    EXPECT_TRUE(contains(text, "array.idx")) << text;
  }
}

TEST(Idx, ABrokenHeaderIsAnError) {
  const Bytes whole = idx_bytes(8, {2, 3}, counting_bytes(6));
  for (std::size_t i = 0; i < 12; ++i) {
    Bytes changed = whole;
    changed[i] ^= 0x40;
    EXPECT_GE(offset_in(parse_error(changed)), 0) << "byte " << i;
  }
  EXPECT_EQ(offset_in(parse_error({1, 0, 8, 1, 0, 0, 0, 0})), 0);
  EXPECT_EQ(offset_in(parse_error({0, 0, 7, 1, 0, 0, 0, 0})), 2);
  EXPECT_EQ(offset_in(parse_error({0, 0, 8, 0})), 3);
}

TEST(Idx, HugeDimensionsAreAnError) {
  Bytes bytes = {0, 0, 0x0e, 8};
  bytes.resize(4 + 8 * 4, 0xff);
  EXPECT_TRUE(contains(parse_error(bytes), "too large")) << parse_error(bytes);
}

// The array has no elements, but its strides exceed 64 bits.
TEST(Idx, HugeDimensionsOfAnEmptyArrayAreAnError) {
  Bytes bytes = {0, 0, 8, 4, 0, 0, 0, 0};
  bytes.resize(4 + 4 * 4, 0xff);
  EXPECT_TRUE(contains(parse_error(bytes), "too large")) << parse_error(bytes);
  EXPECT_EQ(parsed(idx_bytes(8, {3, 0, 5}, {})).elements().size(), 0u);
}

TEST(Idx, MoreThanPromisedIsAnError) {
  const std::string text = parse_error(idx_bytes(8, {2}, {1, 2, 3}));
  EXPECT_EQ(offset_in(text), 10) << text;
}

TEST(Idx, LabelsAreBytesInOneDimension) {
  const auto error = [](const Bytes& bytes, std::int64_t classes) {
    return io_error([&] { check_idx_labels(parsed(bytes), classes); });
  };
  EXPECT_EQ(error(idx_bytes(8, {3}, {0, 9, 4}), 10), "");
  EXPECT_EQ(error(idx_bytes(8, {2}, {0, 255}), 0), "");
  const std::string text = error(idx_bytes(8, {2}, {0, 10}), 10);
  EXPECT_TRUE(contains(text, "label 10 is not one of the 10 classes")) << text;
  EXPECT_EQ(offset_in(text), 9);
  EXPECT_EQ(offset_in(error(idx_bytes(9, {1}, {0}), 10)), 2);
  EXPECT_EQ(offset_in(error(idx_bytes(8, {1, 1}, {0}), 10)), 2);
}

TEST(Idx, CountsMustAgree) {
  const Bytes images = idx_bytes(8, {3, 1, 1}, {1, 2, 3});
  const Bytes labels = idx_bytes(8, {2}, {0, 1});
  const std::string text =
      io_error([&] { check_idx_counts(parsed(images), parsed(labels)); });
  EXPECT_TRUE(contains(text, "2 labels for the 3 images")) << text;
  EXPECT_EQ(offset_in(text), 4);
  check_idx_counts(parsed(images), parsed(images));
}

}  // namespace
}  // namespace sheaf::formats::made
