#include "sheaf/formats/bytes/file_bytes.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "sheaf/base/system.hpp"
#include "tests/formats/bytes/made_files.hpp"

namespace sheaf::formats::made {
namespace {

class FileContent : public FileTest {
 protected:
  Bytes read(FileBytes (*reader)(const std::string&) = read_bytes) const {
    const FileBytes content = reader(path_);
    return {content.data(), content.data() + content.size};
  }
  std::string error() const {
    return io_error([this] { read(); });
  }

  const std::string path_ = (folder_.path() / "content").string();
};

TEST_F(FileContent, IsReadOrMappedPlainOrPacked) {
  for (const std::size_t size : {0, 1, 1000, 300000}) {
    const Bytes bytes = counting_bytes(size);
    write_bytes(path_, bytes);
    EXPECT_EQ(read(), bytes);
    EXPECT_EQ(read(map_bytes), bytes);
    EXPECT_EQ(map_bytes(path_).mapping != nullptr, size > 0);
    write_bytes(path_, gzip(bytes));
    EXPECT_EQ(read(), bytes);
    EXPECT_EQ(read(map_bytes), bytes);
    EXPECT_TRUE(read_bytes(path_).was_unpacked);
    EXPECT_FALSE(map_bytes(path_).mapping);
  }
}

TEST_F(FileContent, CopiesShareTheMemory) {
  write_bytes(path_, counting_bytes(5000));
  FileBytes content = map_bytes(path_);
  const FileBytes copy = content;
  content = {};
  EXPECT_EQ(copy.data()[4999], 4999 % 251);
  const Bytes bytes = {1, 2, 3};
  const FileBytes view = view_bytes("name", bytes);
  EXPECT_EQ(view.data(), bytes.data());
  EXPECT_TRUE(contains(io_error([&] { view.fail(2, "wrong"); }),
                       "name: wrong, at byte 2"));
}

TEST_F(FileContent, NamesAMissingFile) {
  EXPECT_TRUE(contains(error(), "cannot read " + path_)) << error();
  for (const auto reader : {read_bytes, map_bytes})
    EXPECT_TRUE(contains(io_error([&] { reader(folder_.path().string()); }),
                         "it is a folder"));
}

// Opening a pipe to read waits for a writer.
TEST_F(FileContent, APipeOrDeviceIsAnErrorAtOnce) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  for (const std::string& path : {path_, std::string("/dev/zero")})
    for (const auto reader : {read_bytes, map_bytes}) {
      const std::string text = io_error([&] { reader(path); });
      EXPECT_TRUE(contains(text, path) && contains(text, "pipe")) << text;
    }
}

// Four times the memory of this machine, without content.
TEST_F(FileContent, AFileLargerThanTheMemoryIsAnError) {
  const auto available = available_memory();
  if (!available) GTEST_SKIP() << "the available memory is unknown";
  write_bytes(path_, {1});
  std::error_code error_code;
  std::filesystem::resize_file(path_, 4 * *available, error_code);
  if (error_code) GTEST_SKIP() << "the file system has no sparse files";
  const std::string text = error();
  EXPECT_TRUE(contains(text, path_) && contains(text, "is available")) << text;
}

TEST_F(FileContent, SumsAsGzipDoes) {
  const Bytes text = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
  EXPECT_EQ(crc32_of(view_bytes("text", text)), 0xcbf43926u);
}

}  // namespace
}  // namespace sheaf::formats::made
