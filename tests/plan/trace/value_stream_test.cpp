#include "sheaf/plan/trace/value_stream.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

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

class ValueStreamTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) const {
    const auto path = folder_.path() / "values.json";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(ValueStreamTest, ValuesEndWhereTheyEnd) {
  ValueStream stream(write(
      " 12 , true,\"a \\\" b\\\\\" ,{\"x\": [1, \"}\"]}\n,[[], {}],-1.5e3"));
  std::vector<std::string> values;
  do {
    values.emplace_back(stream.value());
  } while (stream.take(','));
  EXPECT_EQ(values, (std::vector<std::string>{"12", "true", "\"a \\\" b\\\\\"",
                                              "{\"x\": [1, \"}\"]}", "[[], {}]",
                                              "-1.5e3"}));
  EXPECT_EQ(stream.peek(), 0);
}

TEST_F(ValueStreamTest, BytesAreTakenOnlyIfTheyAreNext) {
  ValueStream stream(write("\t\r\n [ 7 ]"));
  EXPECT_FALSE(stream.take(']'));
  EXPECT_TRUE(stream.take('['));
  EXPECT_EQ(stream.peek(), '7');
  EXPECT_EQ(stream.offset(), 6u);
  EXPECT_EQ(stream.value(), "7");
  stream.expect(']', "at the end");
  EXPECT_EQ(stream.peek(), 0);
}

TEST_F(ValueStreamTest, ErrorsHaveTheirPlace) {
  ValueStream stream(write("[ 7"));
  expect_throws<IoError>(
      [&] { stream.expect('{', "before events"); },
      {"values.json, byte 0", "expected '{' before events", "found '['"});
  EXPECT_TRUE(stream.take('['));
  EXPECT_EQ(stream.value(), "7");
  expect_throws<IoError>(
      [&] { stream.expect(']', "after events"); },
      {"byte 3", "expected ']' after events", "found the end", "ends early"});
  expect_throws<IoError>([&] { stream.value(); }, {"byte 3", "ends early"});
}

TEST_F(ValueStreamTest, ValuesThatDoNotEndBeginSomewhere) {
  for (const char* text : {" {\"a\": 1", " \"text", " [1, [2]"}) {
    ValueStream stream(write(text));
    expect_throws<IoError>([&] { stream.value(); },
                           {"byte 1", "a value that begins here"});
  }
  ValueStream stream(write("]"));
  expect_throws<IoError>([&] { stream.value(); },
                         {"byte 0", "expected a value"});
}

}  // namespace
}  // namespace sheaf::plan
