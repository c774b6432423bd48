#include <gtest/gtest.h>
#include <sys/stat.h>

#include "sheaf/base/system.hpp"
#include "tests/formats/archives/zip_file.hpp"

namespace sheaf::formats {
namespace {

using ZipReaderTest = ZipTest;

TEST_F(ZipReaderTest, AnArchiveMayHaveAComment) {
  std::string bytes = text_archive();
  bytes[bytes.size() - 2] = 5;
  write(bytes + "hello");
  const ZipReader reader(path());
  EXPECT_EQ(reader.read(*reader.find("a")).bytes(), "text");
  // The comment's length must fit.
  for (const std::string rest : {"hell", "hello!", ""}) {
    write(bytes + rest);
    expect_throws<IoError>([&] { ZipReader late(path()); },
                           {"a.zip", "end record", "missing"});
  }
}

// Marks in a comment are not end records.
TEST_F(ZipReaderTest, ACommentMayHoldMarks) {
  const std::string plain = text_archive();
  std::string marks;
  for (int i = 0; i < 16383; ++i) marks += "PK\5\6";
  std::string bytes = plain;
  set_u16(bytes, bytes.size() - 2, static_cast<std::uint16_t>(marks.size()));
  EXPECT_EQ(ZipReader("a", bytes + marks).entries().size(), 1u);
  expect_throws<IoError>([&] { ZipReader("a", plain + marks); }, {"missing"});
  expect_throws<IoError>([&] { ZipReader("a", marks); }, {"missing"});
  expect_throws<IoError>([&] { ZipReader("a", ""); }, {"a: byte 0", "missing"});
}

TEST_F(ZipReaderTest, APipeIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  expect_throws<IoError>([&] { ZipReader reader(path()); }, {"it is a pipe"});
}

// The file takes no space, but its content would fill the memory.
TEST_F(ZipReaderTest, AnArchiveLargerThanTheMemoryIsRefused) {
  const auto available = available_memory();
  if (!available) GTEST_SKIP() << "the available memory is unknown";
  write("");
  std::filesystem::resize_file(path(), *available);
  expect_throws<IoError>([&] { ZipReader reader(path()); },
                         {"a.zip: its content needs", "more memory"});
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

TEST_F(ZipReaderTest, CompressedEntriesAreUnpacked) {
  // The last one is compressed to less than an eighth.
  for (const std::size_t size : {0, 1, 100'000, 10'000'000}) {
    std::string text(size, 'x');
    for (std::size_t i = 0; i < size; i += 1 + size / 1000)
      text[i] = static_cast<char>(i);
    write(packed_archive(deflated(text), text));
    const ZipReader reader(path());
    EXPECT_EQ(reader.read(reader.entries()[0]).bytes(), text);
  }
}

// The size in the directory is compared with the content, and no memory is
// allocated for sizes that deflate cannot reach.
TEST_F(ZipReaderTest, WrongUnpackedSizesAreRefused) {
  const std::string text(1000, 'x'), packed = deflated(text);
  const std::string good = packed_archive(packed, text);
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
  expect_throws<IoError>([&] { ZipReader broken(path()); },
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

// Byte 10 of the end record is the number of entries, byte 12 the size of the
// directory, byte 16 its offset.
TEST_F(ZipReaderTest, TheDirectoryFillsItsPlace) {
  const std::string good = text_archive();
  const std::size_t end = good.size() - 22, entry = good.find("PK\1\2");
  const auto with = [&](std::size_t at, std::size_t value) {
    std::string bad = good;
    set_u32(bad, end + at, static_cast<std::uint32_t>(value));
    return error_of<IoError>([&] { ZipReader("a", bad); });
  };
  const auto has = [](const std::string& text, const std::string& word) {
    return text.find(word) != std::string::npos;
  };
  EXPECT_TRUE(has(with(12, end - entry + 1), "does not fit"));
  EXPECT_TRUE(has(with(12, end - entry - 1), "only 0 are left"));
  EXPECT_TRUE(has(with(16, end + 1), "does not fit"));
  EXPECT_TRUE(has(with(16, 0xfffffffe), "does not fit"));
  EXPECT_TRUE(has(with(16, entry - 1), "expected an entry of the directory"));
  std::string fewer = good;
  set_u16(fewer, end + 10, 0);
  EXPECT_TRUE(has(error_of<IoError>([&] { ZipReader("a", fewer); }),
                  "47 bytes follow the last entry of the directory"));
}

TEST_F(ZipReaderTest, ThereMayBe65535EntriesWithoutZip64) {
  ZipWriter writer;
  for (int i = 0; i < 40; ++i) writer.add(std::to_string(i), {});
  std::string bytes = writer.bytes();
  const std::size_t end = bytes.size() - 22;
  set_u16(bytes, end + 10, 0xffff);
  // Not the zip64 locator, but entries, are missing.
  expect_throws<IoError>([&] { ZipReader("a", bytes); },
                         {"an entry of the directory needs 4 bytes"});
}

// Two entries of the directory may not share any byte of their headers and
// contents: N entries of the same megabyte would unpack to N gigabytes.
TEST_F(ZipReaderTest, OverlappingEntriesAreRefused) {
  ZipWriter writer;
  writer.add("a", {"text"});
  writer.add("b", {"more"});
  const std::string good = writer.bytes();
  const std::size_t a = good.find("PK\1\2"), b = good.rfind("PK\1\2");
  const auto with = [&](std::size_t at, std::uint32_t value) {
    std::string bad = good;
    set_u32(bad, at, value);
    return error_of<IoError>([&] { ZipReader("x.zip", bad); });
  };
  const std::uint32_t second = 68;  // the offset of the header of b
  EXPECT_EQ(with(b + 42, second), "");
  EXPECT_EQ(with(b + 42, 0),
            "x.zip, entry b: byte 0: it overlaps another entry; the file is "
            "corrupt");
  // The content of a ends within the header of b.
  EXPECT_EQ(with(a + 20, 5),
            "x.zip, entry b: byte 68: it overlaps another entry; the file is "
            "corrupt");
  // That of b ends within the directory.
  EXPECT_EQ(with(b + 20, 5),
            concat("x.zip: byte 128: the content of an entry needs 5 bytes, "
                   "only 4 are left; the file is truncated or corrupt"));
}

TEST_F(ZipReaderTest, NamesDifferAndMatchTheirHeaders) {
  ZipWriter writer;
  writer.add("a", {"text"});
  writer.add("b", {"more"});
  std::string bytes = writer.bytes();
  bytes[bytes.rfind("PK\1\2") + 46] = 'a';
  expect_throws<IoError>([&] { ZipReader("x.zip", bytes); },
                         {"x.zip, entry a: byte 68: its name differs"});
  bytes[bytes.rfind("PK\3\4") + 30] = 'a';
  expect_throws<IoError>(
      [&] { ZipReader("x.zip", bytes); },
      {"x.zip, entry a: byte ", "two entries have this name"});
}

// The extra field of the directory's entry follows its name.
TEST_F(ZipReaderTest, ExtraFieldsStayInsideOfTheEntry) {
  ZipWriter writer(/*limit=*/0);
  writer.add("a", {"text"});
  const std::string good = writer.bytes();
  const std::size_t extra = good.find("PK\1\2") + 47;
  EXPECT_EQ(ZipReader("a", good).entries()[0].bytes, 4u);
  std::string bad = good;
  set_u16(bad, extra + 2, 25);  // one byte more than there is
  expect_throws<IoError>([&] { ZipReader("a", bad); },
                         {"an extra field ends after the entry"});
  bad = good;
  set_u16(bad, extra + 2, 23);
  expect_throws<IoError>([&] { ZipReader("a", bad); },
                         {"a zip64 number is missing"});
  // Other fields are skipped.
  bad = good;
  set_u16(bad, extra, 2);
  expect_throws<IoError>(
      [&] { ZipReader("a", bad); },
      {"the header of an entry should be at byte 4294967295"});
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
