#include "sheaf/tensor/files/zip.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::tensor {
namespace {

class ZipTest : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "a.zip"; }
  void write(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary) << bytes;
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(ZipTest, EntriesComeBackAligned) {
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
    EXPECT_EQ(reader.read(*reader.find("a")), "onetwo");
    EXPECT_EQ(reader.read(*reader.find("folder/b")), "");
    EXPECT_EQ(reader.read(*reader.find("c")), long_text);
    EXPECT_EQ(reader.find("b"), nullptr);
    EXPECT_EQ(read_file(path()).find("onetwo") % 64, 0u);
    EXPECT_EQ(read_file(path()).find("xxxx") % 64, 0u);
  }
}

TEST_F(ZipTest, AnEmptyArchiveHasNoEntries) {
  ZipWriter().save(path());
  EXPECT_TRUE(ZipReader(path()).entries().empty());
}

TEST_F(ZipTest, NamesAreChecked) {
  ZipWriter writer;
  writer.add("a", {});
  EXPECT_THROW(writer.add("a", {}), UsageError);
  EXPECT_THROW(writer.add("", {}), UsageError);
  EXPECT_THROW(writer.add(std::string(65536, 'a'), {}), UsageError);
  writer.add(std::string(65535, 'a'), {});
}

TEST_F(ZipTest, AnArchiveMayHaveAComment) {
  ZipWriter writer;
  writer.add("a", {"text"});
  writer.save(path());
  std::string bytes = read_file(path());
  bytes[bytes.size() - 2] = 5;
  write(bytes + "hello");
  const ZipReader reader(path());
  EXPECT_EQ(reader.read(*reader.find("a")), "text");
  write(bytes + std::string(65536, ' '));
  expect_throws<IoError>([&] { ZipReader late(path()); },
                         {"a.zip", "end record", "missing"});
}

TEST_F(ZipTest, EveryTruncatedArchiveIsRefused) {
  ZipWriter writer;
  writer.add("a", {"text"});
  writer.save(path());
  const std::string good = read_file(path());
  for (std::size_t size = 0; size < good.size(); ++size) {
    write(good.substr(0, size));
    expect_throws<IoError>([&] { ZipReader cut(path()); }, {"a.zip", "byte "});
  }
}

TEST_F(ZipTest, AChangedContentDoesNotMatchItsChecksum) {
  ZipWriter writer;
  writer.add("a", {"text"});
  writer.save(path());
  std::string bytes = read_file(path());
  bytes[bytes.find("text")] = 'T';
  write(bytes);
  const ZipReader reader(path());
  expect_throws<IoError>([&] { reader.read(*reader.find("a")); },
                         {"a.zip, entry a", "byte 64", "checksum"});
}

// The fields of a directory entry: flags at byte 8, the method at byte 10, the
// size at byte 24.
TEST_F(ZipTest, UnreadableEntriesAreNamed) {
  ZipWriter writer;
  writer.add("a", {"text"});
  writer.save(path());
  const std::string good = read_file(path());
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

}  // namespace
}  // namespace sheaf::tensor
