#include "sheaf/formats/texts/yaml_text.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::formats {
namespace {

std::string yaml_error(const std::string& text) {
  return error_of<UsageError>([&] { parse_yaml(text, {.name = "a.yaml"}); });
}

std::string repeated(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(YamlText, ReadsOneDocument) {
  EXPECT_EQ(parse_yaml("a: [1, {b: c}]\n", {"x"})["a"][1]["b"].Scalar(), "c");
  EXPECT_TRUE(parse_yaml("", {"x"}).IsNull());
  EXPECT_TRUE(parse_yaml("# nothing\n", {"x"}).IsNull());
  EXPECT_EQ(parse_yaml("\xef\xbb\xbf"
                       "a: 1\n",
                       {"x"})["a"]
                .Scalar(),
            "1");
  EXPECT_EQ(parse_yaml("---\na: 1\n...\n", {"x"})["a"].Scalar(), "1");
  EXPECT_EQ(parse_yaml("a: gr\u00fcn\n", {"x"})["a"].Scalar(), "gr\u00fcn");
}

TEST(YamlText, AliasesStandForTheirValues) {
  const auto node = parse_yaml("a: &x {b: 1}\nc: *x\nd: [*x, *x]\n", {"x"});
  EXPECT_EQ(node["d"][1]["b"].Scalar(), "1");
}

TEST(YamlText, ErrorsNameTheLine) {
  EXPECT_EQ(yaml_error("a: 1\nb: [1,\n").substr(0, 8), "a.yaml:3");
  EXPECT_NE(yaml_error("a: [").find("invalid YAML"), std::string::npos);
  EXPECT_EQ(error_of<UsageError>([] {
              parse_yaml("a: [", {"--set x", /*has_lines=*/false});
            }).substr(0, 9),
            "--set x: ");
  EXPECT_THROW(parse_yaml("a: [", {.name = "x", .is_by_user = false}), IoError);
}

TEST(YamlText, KeysGivenTwiceAreErrors) {
  EXPECT_EQ(yaml_error("a:\n  b: 1\n  c: [{b: 2}]\n  b: 3\n"),
            "a.yaml:4: a.b is given twice; remove one of them");
  EXPECT_NE(yaml_error("{a: 1, 'a': 2}"), "");
  EXPECT_NE(yaml_error("? [1, 2]\n: 3\n").find("a key is a mapping or a list"),
            std::string::npos);
}

// Only the first document would be read.
TEST(YamlText, ASecondDocumentIsAnError) {
  EXPECT_EQ(yaml_error("a: 1\n---\nb: 2\n").substr(0, 30),
            "a.yaml:2: a second document be");
}

TEST(YamlText, RefusesWhatIsNotText) {
  EXPECT_EQ(yaml_error("a: 1\nb: \xff\n").substr(0, 36),
            "a.yaml:2: the byte \\xff is not text;");
  EXPECT_NE(yaml_error(std::string("a: 1\0b: 2", 9)), "");
  EXPECT_NE(yaml_error("a: 1\x04\nb: 2\n"), "");
  EXPECT_NE(yaml_error("a: \x1b[2J"), "");
  EXPECT_NE(yaml_error("\xff\xfe"
                       "a\0:\0"),
            "");  // UTF-16
  // By an escape.
  EXPECT_NE(yaml_error("a: \"1\\0junk\"").find("not text"), std::string::npos);
  EXPECT_NE(yaml_error("a: \"\\e[2J\""), "");
}

TEST(YamlText, RefusesDeepNesting) {
  for (const char* open : {"[", "{a: ", "- ", "? "})
    EXPECT_NE(yaml_error(repeated(100'000, open)), "") << open;
  EXPECT_EQ(yaml_error(repeated(64, "[") + repeated(64, "]")), "");
  EXPECT_NE(yaml_error(repeated(65, "[") + repeated(65, "]"))
                .find("nested deeper than 64 levels"),
            std::string::npos);
}

// Nine levels of nine aliases each stand for 9^9 values.
TEST(YamlText, RefusesAliasesThatMultiply) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" +
            before + repeated(8, ", " + before) + "]\n";
  }
  EXPECT_NE(yaml_error(text).find("more than 200000 values"),
            std::string::npos);
  EXPECT_NE(yaml_error("[" + repeated(200'001, "1,") + "]"), "");
}

// yaml-cpp would make a value that has no end.
TEST(YamlText, RefusesAValueThatContainsItself) {
  EXPECT_EQ(yaml_error("a:\n  &x [1, *x]\n"),
            "a.yaml:2: a value contains itself by an alias (*)");
}

}  // namespace
}  // namespace sheaf::formats
