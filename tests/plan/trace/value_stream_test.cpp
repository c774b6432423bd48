#include "sheaf/plan/trace/value_stream.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

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
