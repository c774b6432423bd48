#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "sheaf/plan/trace/value_stream.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

class TextSourceTest : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "text"; }
  void write(const std::string& text) const {
    std::ofstream(path(), std::ios::binary) << text;
  }
  void compress(const std::string& text) const {
    gzFile file = gzopen(path().c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
  }

 private:
  TemporaryFolder folder_;
};

// Longer than two reads of 1 MiB, and different everywhere.
std::string long_text() {
  std::string text;
  for (int i = 0; text.size() < (std::size_t{5} << 19); ++i)
    text += std::to_string(i) + " ";
  return text;
}

std::string read_all(const std::filesystem::path& path, std::size_t keep) {
  TextSource source(path);
  std::string all;
  while (source.read_more())
    while (source.size() > keep) {
      const std::size_t some = std::min<std::size_t>(source.size(), 1000);
      EXPECT_EQ(source.offset(), all.size());
      EXPECT_GE(source.capacity(), source.size() + 64);
      all += source.text().substr(0, some);
      source.drop(some);
    }
  all += source.text();
  return all;
}

TEST_F(TextSourceTest, PlainAndCompressedTextsAreTheSame) {
  const std::string text = long_text();
  write(text);
  EXPECT_EQ(read_all(path(), 0), text);
  EXPECT_EQ(read_all(path(), 5000), text);
  compress(text);
  EXPECT_EQ(read_all(path(), 0), text);
  EXPECT_EQ(read_all(path(), 5000), text);
}

TEST_F(TextSourceTest, AnEmptyFileHasNoText) {
  write("");
  TextSource source(path());
  EXPECT_FALSE(source.read_more());
  EXPECT_EQ(source.text(), "");
}

TEST_F(TextSourceTest, ErrorsHaveTheFileAndThePlace) {
  expect_throws<IoError>([&] { TextSource none(path()); },
                         {"cannot read", path().string(), "No such file"});
  write("0123456789");
  TextSource source(path());
  EXPECT_TRUE(source.read_more());
  source.drop(4);
  EXPECT_EQ(source.text(), "456789");
  expect_throws<IoError>([&] { source.fail(2, "not good"); },
                         {path().string() + ", byte 6: not good"});
}

TEST_F(TextSourceTest, ACompressedFileThatIsCutOffIsAnError) {
  compress(long_text());
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) / 2);
  expect_throws<IoError>([&] { read_all(path(), 0); },
                         {path().string(), "byte ", "ends early"});
}

}  // namespace
}  // namespace sheaf::plan
