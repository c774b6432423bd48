#include <gtest/gtest.h>

#include "tests/formats/archives/zip_file.hpp"

namespace sheaf::formats {
namespace {

using ZipWriterTest = ZipTest;

// The fields of an entry's local header that depend on its size.
struct LocalHeader {
  std::uint16_t version = 0;
  std::uint32_t packed_bytes = 0;
  std::uint32_t bytes = 0;
  std::string extra{};
};

LocalHeader local_header_at(const std::string& archive, std::size_t offset) {
  ByteReader reader("header", archive);
  reader.seek(offset, "the header");
  EXPECT_EQ(reader.take(4, "mark"), "PK\3\4");
  LocalHeader header;
  header.version = reader.u16("version");
  reader.take(12, "flags, method, time and checksum");
  header.packed_bytes = reader.u32("size");
  header.bytes = reader.u32("size");
  const std::size_t name_bytes = reader.u16("name length");
  const std::size_t extra_bytes = reader.u16("extra length");
  reader.take(name_bytes, "name");
  header.extra = reader.take(extra_bytes, "extra");
  return header;
}

TEST_F(ZipWriterTest, EntriesComeBackAligned) {
  const std::string long_text(1000, 'x');
  for (const std::uint64_t limit : {kZip32Limit, 0u, 100u}) {
    ZipWriter writer(limit);
    writer.add("a", {"one", "", "two"});
    writer.add("folder/b", {});
    writer.add("c", {long_text});
    writer.save(path());
    const ZipReader reader(path());
    ASSERT_EQ(reader.entries().size(), 3u);
    EXPECT_EQ(reader.entries()[1].name, "folder/b");
    EXPECT_EQ(reader.read(*reader.find("a")).bytes(), "onetwo");
    EXPECT_EQ(reader.read(*reader.find("folder/b")).bytes(), "");
    EXPECT_EQ(reader.read(*reader.find("c")).bytes(), long_text);
    EXPECT_EQ(reader.find("b"), nullptr);
    EXPECT_EQ(read_file(path()).find("onetwo") % 64, 0u);
    EXPECT_EQ(read_file(path()).find("xxxx") % 64, 0u);
  }
}

TEST_F(ZipWriterTest, AnEmptyArchiveHasNoEntries) {
  ZipWriter().save(path());
  EXPECT_TRUE(ZipReader(path()).entries().empty());
}

TEST_F(ZipWriterTest, NamesAreChecked) {
  ZipWriter writer;
  writer.add("a", {});
  expect_throws<UsageError>([&] { writer.add("a", {}); },
                            {"two entries have the name 'a'"});
  expect_throws<UsageError>([&] { writer.add("", {}); },
                            {"'' cannot be the name", "1 to 65535 bytes"});
  EXPECT_THROW(writer.add(std::string(65536, 'a'), {}), UsageError);
  writer.add(std::string(65535, 'a'), {});
}

// A size of the limit or more is in the extra field of kind 1, 16 bytes long,
// and the fields of 32 bits are filled with ones.
TEST_F(ZipWriterTest, SizesFromTheLimitOnAreZip64) {
  ZipWriter writer(/*limit=*/100);
  const std::string below(99, 'b'), at(100, 'c');
  writer.add("below", {below});
  writer.add("at", {at});
  writer.save(path());
  const std::string bytes = read_file(path());
  const LocalHeader small = local_header_at(bytes, 0);
  EXPECT_EQ(small.version, 20);
  EXPECT_EQ(small.packed_bytes, 99u);
  EXPECT_EQ(small.bytes, 99u);
  EXPECT_NE(small.extra[0], 1);
  const ZipReader reader(path());
  const LocalHeader large = local_header_at(bytes, reader.find("at")->offset);
  EXPECT_EQ(large.version, 45);
  EXPECT_EQ(large.packed_bytes, kZip32Limit);
  EXPECT_EQ(large.bytes, kZip32Limit);
  std::string sizes;
  put_u16(sizes, 1);
  put_u16(sizes, 16);
  put_u64(sizes, 100);
  put_u64(sizes, 100);
  EXPECT_EQ(large.extra.substr(0, sizes.size()), sizes);
  EXPECT_EQ(reader.find("at")->bytes, 100u);
}

TEST_F(ZipWriterTest, OnlyLargeArchivesHaveAZip64End) {
  EXPECT_EQ(text_archive().find("PK\6\6"), std::string::npos);
  ZipWriter large(/*limit=*/0);
  large.add("a", {});
  large.save(path());
  EXPECT_NE(read_file(path()).find("PK\6\6"), std::string::npos);
  EXPECT_EQ(ZipReader(path()).entries().size(), 1u);
}

TEST_F(ZipWriterTest, EqualContentGivesEqualFiles) {
  const std::string first = text_archive();
  EXPECT_EQ(text_archive(), first);
}

TEST_F(ZipWriterTest, AFileIsReplacedOrKept) {
  const std::string before = text_archive();
  ZipWriter writer;
  writer.add("b", {"other"});
  expect_throws<IoError>([&] { writer.save(folder_.path() / "no" / "a.zip"); },
                         {"no/a.zip"});
  EXPECT_EQ(read_file(path()), before);
  writer.save(path());
  EXPECT_EQ(ZipReader(path()).entries()[0].name, "b");
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"a.zip"});
}

}  // namespace
}  // namespace sheaf::formats
