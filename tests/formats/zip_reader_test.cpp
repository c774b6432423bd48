#include <gtest/gtest.h>
#include <zlib.h>

#include "tests/formats/zip_file.hpp"

namespace sheaf::formats {
namespace {

using ZipReaderTest = ZipTest;

TEST_F(ZipReaderTest, AnArchiveMayHaveAComment) {
  std::string bytes = text_archive();
  bytes[bytes.size() - 2] = 5;
  write(bytes + "hello");
  const ZipReader reader(path());
  EXPECT_EQ(reader.read(*reader.find("a")), "text");
  write(bytes + std::string(65536, ' '));
  expect_throws<IoError>([&] { ZipReader late(path()); },
                         {"a.zip", "end record", "missing"});
}

TEST_F(ZipReaderTest, EveryTruncatedArchiveIsRefused) {
  const std::string good = text_archive();
  for (std::size_t size = 0; size < good.size(); ++size) {
    write(good.substr(0, size));
    expect_throws<IoError>([&] { ZipReader cut(path()); }, {"a.zip", "byte "});
  }
}

TEST_F(ZipReaderTest, AChangedContentDoesNotMatchItsChecksum) {
  std::string bytes = text_archive();
  bytes[bytes.find("text")] = 'T';
  write(bytes);
  const ZipReader reader(path());
  expect_throws<IoError>([&] { reader.read(*reader.find("a")); },
                         {"a.zip, entry a", "byte 64", "checksum"});
}

// The fields of a directory entry: flags at byte 8, the method at byte 10, the
// size at byte 24.
TEST_F(ZipReaderTest, UnreadableEntriesAreNamed) {
  const std::string good = text_archive();
  const std::size_t entry = good.find("PK\1\2");
  const auto expect_fault = [&](std::size_t at, char value,
                                const std::string& word) {
    std::string bad = good;
    bad[entry + at] = value;
    write(bad);
    const ZipReader reader(path());
    expect_throws<IoError>([&] { reader.read(reader.entries()[0]); },
                           {"a.zip, entry a", word});
  };
  expect_fault(8, 1, "encrypted");
  expect_fault(10, 12, "compression method 12");
  expect_fault(10, 8, "cannot be inflated");
  expect_fault(24, 5, "sizes of an uncompressed entry differ");
}

std::string deflated(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

void set_u32(std::string& bytes, std::size_t at, std::uint32_t value) {
  std::string number;
  put_u32(number, value);
  bytes.replace(at, number.size(), number);
}

// The archive of an entry "a" that holds the packed bytes of `text`. In the
// directory the method is at byte 10, the checksum at byte 16 and the unpacked
// size at byte 24.
std::string packed_archive(const std::filesystem::path& path,
                           const std::string& packed, const std::string& text) {
  ZipWriter writer;
  writer.add("a", {packed});
  writer.save(path);
  std::string bytes = read_file(path);
  const std::size_t entry = bytes.find("PK\1\2");
  bytes[entry + 10] = 8;
  set_u32(bytes, entry + 16,
          static_cast<std::uint32_t>(crc32_z(
              0, reinterpret_cast<const Bytef*>(text.data()), text.size())));
  set_u32(bytes, entry + 24, static_cast<std::uint32_t>(text.size()));
  return bytes;
}

TEST_F(ZipReaderTest, CompressedEntriesAreUnpacked) {
  for (const std::size_t size : {0, 1, 100'000}) {
    std::string text(size, 'x');
    for (std::size_t i = 0; i < size; i += 7) text[i] = static_cast<char>(i);
    write(packed_archive(path(), deflated(text), text));
    const ZipReader reader(path());
    EXPECT_EQ(reader.read(reader.entries()[0]), text);
  }
}

// The size in the directory is compared with the content, and no memory is
// allocated for sizes that deflate cannot reach.
TEST_F(ZipReaderTest, WrongUnpackedSizesAreRefused) {
  const std::string text(1000, 'x'), packed = deflated(text);
  const std::string good = packed_archive(path(), packed, text);
  const std::size_t size_at = good.find("PK\1\2") + 24;
  const auto expect_fault = [&](std::uint32_t size, const std::string& word) {
    std::string bad = good;
    set_u32(bad, size_at, size);
    write(bad);
    const ZipReader reader(path());
    expect_throws<IoError>([&] { reader.read(reader.entries()[0]); },
                           {"a.zip, entry a: byte 0", word});
  };
  expect_fault(999, "cannot be inflated");
  expect_fault(1001, "cannot be inflated");
  expect_fault(0xfffffffe, "its size is impossible");
}

// Offset 42 of a directory entry is that of the local header.
TEST_F(ZipReaderTest, HeadersMustBeWhereTheDirectoryIsPointing) {
  const std::string good = text_archive();
  const std::size_t entry = good.find("PK\1\2");
  std::string bad = good;
  set_u32(bad, entry + 42, 1);
  write(bad);
  const ZipReader reader(path());
  expect_throws<IoError>([&] { reader.read(reader.entries()[0]); },
                         {"byte 1: expected the header of an entry"});
  bad = good;
  bad[entry] = 'K';
  write(bad);
  expect_throws<IoError>(
      [&] { ZipReader broken(path()); },
      {concat("byte ", entry, ": expected an entry of the directory")});
}

TEST_F(ZipReaderTest, TheZip64EndRecordMustBeThere) {
  ZipWriter writer(/*limit=*/0);
  writer.add("a", {"text"});
  writer.save(path());
  const std::string good = read_file(path());
  for (const auto& [mark, what] :
       {std::pair<std::string, std::string>{"PK\6\7", "the zip64 locator"},
        {"PK\6\6", "the zip64 end record"}}) {
    std::string bad = good;
    bad[bad.find(mark)] = 'x';
    write(bad);
    expect_throws<IoError>([&] { ZipReader broken(path()); },
                           {"expected " + what});
  }
}

TEST_F(ZipReaderTest, NamesAreFoundExactly) {
  text_archive();
  const ZipReader reader(path());
  EXPECT_EQ(reader.name(), path().string());
  EXPECT_EQ(reader.find("a"), &reader.entries()[0]);
  EXPECT_EQ(reader.find(""), nullptr);
  EXPECT_EQ(reader.find("a/"), nullptr);
}

}  // namespace
}  // namespace sheaf::formats
