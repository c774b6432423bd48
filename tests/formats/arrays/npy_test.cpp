#include "sheaf/formats/arrays/npy.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "tests/support/expect_error.hpp"

namespace sheaf::formats {
namespace {

// The bytes of a file of this version with this dictionary.
std::string npy_with(const std::string& text, char version = 1) {
  std::string bytes("\x93NUMPY", 6);
  bytes += version;
  bytes += '\0';
  if (version == 1)
    put_u16(bytes, static_cast<std::uint16_t>(text.size()));
  else
    put_u32(bytes, static_cast<std::uint32_t>(text.size()));
  return bytes + text;
}

NpyHeader header_in(const std::string& bytes) {
  ByteReader reader("a.npy", bytes);
  return take_npy_header(reader);
}

TEST(NpyHeader, ComesBackForEveryTypeAndShape) {
  using Shape = std::vector<std::int64_t>;
  for (std::size_t i = 0; i < kDTypeCount; ++i)
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3}, Shape{2, 0, 5},
                               Shape(64, 1), Shape{1'000'000'007, 3}}) {
      const auto dtype = static_cast<DType>(i);
      const std::string bytes = make_npy_header(dtype, shape);
      EXPECT_EQ(bytes.size() % 64, 0u);
      EXPECT_EQ(bytes.back(), '\n');
      ByteReader reader("a.npy", bytes);
      const NpyHeader header = take_npy_header(reader);
      EXPECT_EQ(reader.left(), 0u);
      EXPECT_EQ(header.dtype, dtype);
      EXPECT_EQ(header.shape, shape);
      EXPECT_FALSE(header.is_swapped);
      EXPECT_FALSE(header.is_fortran_order);
    }
}

TEST(NpyHeader, IsAPythonDictionary) {
  const auto text = [](DType dtype, const std::vector<std::int64_t>& shape) {
    const std::string header = make_npy_header(dtype, shape);
    return header.substr(10, header.find('}') - 9);
  };
  EXPECT_EQ(text(DType::kU8, {2, 3}),
            "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }");
  EXPECT_EQ(text(DType::kBool, {4}),
            "{'descr': '|b1', 'fortran_order': False, 'shape': (4, ), }");
  EXPECT_EQ(text(DType::kI8, {}),
            "{'descr': '|i1', 'fortran_order': False, 'shape': (), }");
}

TEST(NpyHeader, OnlyTheOtherByteOrderIsSwapped) {
  const std::string rest = "', 'fortran_order': False, 'shape': ()}";
  for (const std::string code : {"<i2", ">i2", "|i2", "=i2"})
    EXPECT_EQ(
        header_in(npy_with("{'descr': '" + code + rest)).is_swapped,
        code == (std::endian::native == std::endian::little ? ">i2" : "<i2"))
        << code;
}

TEST(NpyHeader, CountsElements) {
  NpyHeader header;
  EXPECT_EQ(header.count(), 1);  // a scalar
  header.shape = {4, 3};
  EXPECT_EQ(header.count(), 12);
  header.shape = {4, 0, 3};
  EXPECT_EQ(header.count(), 0);
}

TEST(NpyHeader, ReadsWhatNumpyMayWrite) {
  for (const char version : {1, 2, 3}) {
    const NpyHeader header = header_in(npy_with(
        "{ \"shape\" :(2L, 3),'fortran_order':True, 'descr': '>f4' } \n",
        version));
    EXPECT_EQ(header.shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_TRUE(header.is_fortran_order);
    EXPECT_TRUE(header.is_swapped);
    EXPECT_EQ(header.dtype, DType::kF32);
  }
  // Single bytes have no order.
  EXPECT_FALSE(header_in(npy_with("{'descr': '>i1', 'fortran_order': False, "
                                  "'shape': ()}"))
                   .is_swapped);
}

TEST(NpyHeader, FaultsAreNamedWithTheirPlace) {
  const auto expect_fault = [](const std::string& text,
                               std::initializer_list<std::string> words) {
    expect_throws<IoError>([&] { header_in(npy_with(text)); }, words);
  };
  const std::string rest = "'fortran_order': False, 'shape': (2,)}";
  expect_fault("", {"a.npy: byte 10: in the header: expected '{'"});
  expect_fault("{'descr': '<f4'}", {"descr, fortran_order and shape"});
  expect_fault("{'descr': '<f4', " + rest + "x", {"text follows"});
  expect_fault("{'descr': '<c8', " + rest, {"'<c8'", "astype"});
  expect_fault("{'descr': '!f4', " + rest, {"'!f4'"});
  expect_fault("{'descr': [('a', '<f4')], " + rest, {"several fields"});
  expect_fault("{'descr': '<f4, ", {"a string has no end"});
  expect_fault("{'other': 1, " + rest, {"unknown key 'other'"});
  expect_fault("{'fortran_order': 0}", {"True or False"});
  expect_fault("{'shape': (-1,)}", {"an axis size"});
  expect_fault("{'shape': 3}", {"byte 20", "expected '('"});
  expect_fault(
      "{'descr': '<f8', 'fortran_order': False, "
      "'shape': (4294967296, 4294967296)}",
      {"larger than any memory"});
  expect_fault(
      make_npy_header(DType::kF32, std::vector<std::int64_t>(65, 1)).substr(10),
      {"more than 64 axes"});
}

TEST(NpyHeader, OtherFilesAreRefused) {
  expect_throws<IoError>([] { header_in("PK\3\4 something"); },
                         {"a.npy: byte 0: not a .npy file"});
  expect_throws<IoError>([] { header_in("\x93NUM"); }, {"truncated"});
  for (const char version : {0, 4})
    expect_throws<IoError>([&] { header_in(npy_with("{}", version)); },
                           {"byte 6", "1 to 3 are supported"});
  const std::string good = make_npy_header(DType::kF32, {2});
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_THROW(header_in(good.substr(0, size)), IoError) << size;
}

TEST(NpyArray, IsExactlyTheFile) {
  const std::string header = make_npy_header(DType::kI16, {2, 3});
  const auto read = [](const std::string& bytes) {
    ByteReader reader("a.npy", bytes);
    return std::string(read_npy(reader).elements);
  };
  EXPECT_EQ(read(header + "elements 12x"), "elements 12x");
  expect_throws<IoError>(
      [&] { read(header + "elements 12"); },
      {"a.npy: byte 128: the array needs 12 bytes, only 11"});
  expect_throws<IoError>([&] { read(header + "elements 12xy"); },
                         {"a.npy: byte 140: 1 bytes follow the array"});
  // Larger than any file.
  expect_throws<IoError>(
      [&] {
        read(make_npy_header(DType::kF32, {30'000'000, 3'000'000}));
      },
      {"the array needs 360000000000000 bytes, only 0 are left"});
  EXPECT_EQ(read(make_npy_header(DType::kF64, {1'000'000'000, 0})), "");
}

}  // namespace
}  // namespace sheaf::formats
