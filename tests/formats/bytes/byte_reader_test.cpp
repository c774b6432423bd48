#include "sheaf/formats/bytes/byte_reader.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::formats {
namespace {

TEST(ByteReader, NumbersAreLittleEndian) {
  std::string bytes("\xff", 1);
  put_u16(bytes, 0x1234);
  put_u32(bytes, 0x89abcdef);
  put_u64(bytes, 0xfedcba9876543210);
  EXPECT_EQ(bytes.substr(1, 2), "\x34\x12");
  EXPECT_EQ(bytes.substr(3, 4), "\xef\xcd\xab\x89");
  ByteReader reader("f", bytes);
  EXPECT_EQ(reader.size(), 15u);
  EXPECT_EQ(reader.u8("a"), 0xff);
  EXPECT_EQ(reader.u16("b"), 0x1234);
  EXPECT_EQ(reader.u32("c"), 0x89abcdef);
  EXPECT_EQ(reader.offset(), 7u);
  EXPECT_EQ(reader.left(), 8u);
  EXPECT_EQ(reader.u64("d"), 0xfedcba9876543210);
  EXPECT_EQ(reader.left(), 0u);
}

TEST(ByteReader, TakesExactlyWhatIsLeft) {
  ByteReader reader("f", "abcdef");
  EXPECT_EQ(reader.take(4, "x"), "abcd");
  expect_throws<IoError>(
      [&] { reader.take(3, "the name"); },
      {"f: byte 4: the name needs 3 bytes, only 2 are left", "truncated"});
  EXPECT_EQ(reader.take(2, "x"), "ef");
  EXPECT_EQ(reader.take(0, "x"), "");
  expect_throws<IoError>([&] { reader.u8("y"); }, {"f: byte 6: y needs 1"});
}

TEST(ByteReader, SeeksUpToTheEnd) {
  ByteReader reader("f", "abcdef");
  reader.seek(6, "x");
  EXPECT_EQ(reader.left(), 0u);
  reader.seek(2, "x");
  EXPECT_EQ(reader.take(1, "x"), "c");
  expect_throws<IoError>([&] { reader.seek(7, "the end record"); },
                         {"f: byte 3: the end record should be at byte 7, past "
                          "the end at 6"});
  EXPECT_EQ(reader.offset(), 3u);
}

TEST(ByteReader, TextsEndBeforeTheirMark) {
  ByteReader reader("f", "a\n\nbc");
  EXPECT_EQ(reader.until('\n', "a line"), "a");
  EXPECT_EQ(reader.until('\n', "a line"), "");
  expect_throws<IoError>([&] { reader.until('\n', "a line"); },
                         {"f: byte 3: a line has no end"});
}

TEST(ByteReader, ErrorsNameThePlaceThatIsGiven) {
  const ByteReader reader("the file", "abc");
  EXPECT_EQ(error_of<IoError>([&] { reader.fail(2, "odd"); }),
            "the file: byte 2: odd");
  EXPECT_EQ(error_of<IoError>([&] { reader.fail("odd"); }),
            "the file: byte 0: odd");
}

TEST(ByteReader, TextsOfFilesAreShownInMessages) {
  EXPECT_EQ(shown("a b~"), "a b~");
  EXPECT_EQ(shown(std::string("\n\0\x1b[m\x7f\xc3", 7)),
            "\\x0a\\x00\\x1b[m\\x7f\\xc3");
  EXPECT_EQ(shown(std::string(80, 'x')), std::string(80, 'x'));
  EXPECT_EQ(shown(std::string(81, 'x')), std::string(80, 'x') + "...");
}

TEST(ByteReader, FilesAreReadWhole) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  for (const std::size_t size : {0, 1, 65535, 65536, 200'001}) {
    std::string content(size, '\0');
    for (std::size_t i = 0; i < size; ++i)
      content[i] = static_cast<char>(i * 7 + i / 256);
    std::ofstream(path, std::ios::binary) << content;
    EXPECT_EQ(read_file(path), content) << size;
  }
  expect_throws<IoError>([&] { read_file(folder.path() / "none"); },
                         {"cannot read", "none", "No such file"});
  expect_throws<IoError>([&] { read_file(folder.path()); },
                         {"cannot read", folder.path().string()});
}

// Files whose size is not known in advance.
TEST(ByteReader, ReadsFilesOfTheKernel) {
  EXPECT_NE(read_file("/proc/self/status").find("Pid:"), std::string::npos);
}

}  // namespace
}  // namespace sheaf::formats
