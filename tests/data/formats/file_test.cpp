#include "sheaf/data/formats/file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/data/made_files.hpp"

namespace sheaf::data {
namespace {

class File : public testing::Test {
 protected:
  Bytes read() const {
    const FileContent content = read_file(path_);
    return {content.data(), content.data() + content.size()};
  }
  std::string error() const {
    return io_error([this] { read(); });
  }

  TemporaryFolder folder_;
  const std::string path_ = (folder_.path() / "content").string();
};

TEST_F(File, ReadsPlainAndPacked) {
  for (const std::size_t size : {0, 1, 1000, 300000}) {
    const Bytes bytes = counting_bytes(size);
    write_bytes(path_, bytes);
    EXPECT_EQ(read(), bytes);
    write_bytes(path_, gzip(bytes));
    EXPECT_EQ(read(), bytes);
    EXPECT_TRUE(read_file(path_).was_unpacked);
  }
}

TEST_F(File, UnpacksWhatShrinksALot) {
  const Bytes zeros(5'000'000);
  write_bytes(path_, gzip(zeros));
  EXPECT_EQ(read(), zeros);
}

// The trailer has the size of the content, so that the memory is allocated
// once, with one byte to find its end.
TEST_F(File, UnpackingTakesTheMemoryOfTheContent) {
  std::minstd_rand random;
  for (const std::size_t size : {1000, 200'000}) {
    Bytes bytes(size);
    for (std::uint8_t& byte : bytes)
      byte = static_cast<std::uint8_t>(random() >> 8);
    write_bytes(path_, gzip(bytes));
    const FileContent content = read_file(path_);
    EXPECT_EQ(content.bytes.storage().nbytes(), size + 1);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), content.data()));
  }
}

TEST_F(File, UnpacksJoinedParts) {
  Bytes joined = gzip({1, 2, 3});
  const Bytes second = gzip({4, 5});
  joined.insert(joined.end(), second.begin(), second.end());
  write_bytes(path_, joined);
  EXPECT_EQ(read(), Bytes({1, 2, 3, 4, 5}));
}

TEST_F(File, NamesAMissingFile) {
  EXPECT_TRUE(contains(error(), path_)) << error();
  EXPECT_TRUE(contains(io_error([this] { read_file(folder_.path().string()); }),
                       "cannot read"));
}

TEST_F(File, APackedFileCutAnywhereIsAnError) {
  const Bytes packed = gzip(counting_bytes(2000));
  for (std::size_t size = 2; size < packed.size(); ++size) {
    write_bytes(
        path_, Bytes(packed.begin(), packed.begin() + static_cast<long>(size)));
    const std::string text = error();
    EXPECT_TRUE(contains(text, path_)) << size << ": " << text;
    EXPECT_EQ(offset_in(text), static_cast<long>(size)) << text;
  }
}

// Bytes 4 to 9 of the gzip header, a time and a system, are not checked. A
// changed flag (byte 3) may turn a part of the data into a file name.
TEST_F(File, APackedFileChangedAnywhereIsAnError) {
  const Bytes packed = gzip(counting_bytes(2000));
  for (std::size_t i = 10; i < packed.size(); ++i) {
    Bytes changed = packed;
    changed[i] ^= 0x10;
    write_bytes(path_, changed);
    const std::string text = error();
    EXPECT_TRUE(contains(text, path_)) << i;
    EXPECT_GE(offset_in(text), 0) << text;
    EXPECT_LE(offset_in(text), static_cast<long>(packed.size())) << text;
  }
}

TEST_F(File, SomethingBehindTheDataIsAnError) {
  Bytes packed = gzip({1, 2, 3});
  const auto size = static_cast<long>(packed.size());
  packed.push_back(9);
  write_bytes(path_, packed);
  EXPECT_EQ(offset_in(error()), size) << error();
}

TEST_F(File, FindsEitherForm) {
  const std::string folder = folder_.path().string();
  EXPECT_EQ(find_file(folder, "content"), "");
  write_bytes(path_ + ".gz", gzip({1}));
  EXPECT_EQ(find_file(folder, "content"), path_ + ".gz");
  write_bytes(path_, {1});
  EXPECT_EQ(find_file(folder, "content"), path_);
}

TEST_F(File, SumsAsGzipDoes) {
  const Bytes text = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
  write_bytes(path_, text);
  EXPECT_EQ(crc32_of(read_file(path_)), 0xcbf43926u);
}

}  // namespace
}  // namespace sheaf::data
