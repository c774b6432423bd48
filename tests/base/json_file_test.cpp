#include "sheaf/base/json_file.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"

namespace sheaf {
namespace {

const JsonSource kSource{"a.json", "write it again"};

std::string json_error(const std::string& text) {
  try {
    parse_json(text, kSource);
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

template <class Use>
std::string value_error(const std::string& text, Use use) {
  try {
    const nlohmann::json json = parse_json(text, kSource);
    use(JsonValue(json, kSource));
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ParseJson, ReturnsTheValue) {
  const auto json =
      parse_json(R"({"a": [1, -2, 0.5, "x", true, null, {}]})", kSource);
  EXPECT_EQ(json, nlohmann::json::parse(
                      R"({"a": [1, -2, 0.5, "x", true, null, {}]})"));
}

TEST(ParseJson, SyntaxErrorsNameTheLine) {
  EXPECT_EQ(json_error("{\"a\": 1,\n \"b\" 2}"),
            "a.json:2: invalid JSON: syntax error while parsing object "
            "separator - unexpected number literal; expected ':'; write it "
            "again");
  EXPECT_EQ(json_error("").substr(0, 28), "a.json:1: invalid JSON: synt");
  EXPECT_NE(json_error("1 2"), "no error");
  EXPECT_NE(json_error("\"\xff\""), "no error");
}

TEST(ParseJson, AnErrorShowsOnlyPartOfALongToken) {
  EXPECT_LT(json_error("\"" + std::string(1 << 20, 'x')).size(), 400u);
  EXPECT_EQ(json_error("[\x1b[2J]").find('\x1b'), std::string::npos);
}

TEST(ParseJson, RejectsDeepNesting) {
  const std::string deep(kMaxJsonDepth, '[');
  EXPECT_EQ(json_error(deep + std::string(kMaxJsonDepth, ']')), "no error");
  EXPECT_EQ(json_error(std::string(1 << 20, '[')),
            "a.json: its values are nested deeper than 64 levels; write it "
            "again");
  std::string objects;
  for (int i = 0; i < 1000; ++i) objects += "{\"a\":";
  EXPECT_NE(json_error(objects).find("nested deeper"), std::string::npos);
}

TEST(ParseJson, RejectsAKeyGivenTwice) {
  EXPECT_EQ(json_error(R"({"a": {"b": 1, "b": 2}})"),
            "a.json: the key 'b' is given twice in one object; write it again");
}

TEST(ParseJson, RejectsNumbersThatADoubleCannotHold) {
  EXPECT_NE(json_error("1e999").find("number overflow"), std::string::npos);
}

TEST(ParseJson, ErrorsAboutFilesOfUsersAreUsageErrors) {
  EXPECT_THROW(parse_json("{", {"a.json", "", true}), UsageError);
}

TEST(JsonValue, ReadsTypes) {
  const auto json = parse_json(
      R"({"t": "x", "b": true, "d": 1.5, "i": -7, "e": 1e3,
          "u": 18446744073709551615, "l": [1, 2]})",
      kSource);
  const JsonValue value(json, kSource);
  EXPECT_EQ(value.at("t").text(), "x");
  EXPECT_TRUE(value.at("b").truth());
  EXPECT_EQ(value.at("d").number(), 1.5);
  EXPECT_EQ(value.at("i").as<int>(), -7);
  EXPECT_EQ(value.at("e").as<int>(), 1000);
  EXPECT_EQ(value.at("u").as<std::uint64_t>(), ~std::uint64_t{0});
  EXPECT_EQ(value.at("l").as<std::vector<int>>(), (std::vector<int>{1, 2}));
  EXPECT_EQ(value.value("none", 3), 3);
  EXPECT_EQ(value.value("none", "text"), "text");
  EXPECT_EQ(value.members().size(), 7u);
}

TEST(JsonValue, RejectsOtherTypesAndNumbersOutOfRange) {
  const auto error = [](const std::string& text, auto use) {
    return value_error(text, use);
  };
  EXPECT_EQ(error(R"({"a": {"b": 5}})",
                  [](auto value) { value.at("a").at("b").text(); }),
            "a.json: key 'a.b' must be a string, not 5; write it again");
  EXPECT_EQ(error(R"({"a": [0, 300]})",
                  [](auto value) {
                    value.at("a").template as<std::vector<std::uint8_t>>();
                  }),
            "a.json: key 'a[1]' must be a whole number from 0 to 255, not 300; "
            "write it again");
  EXPECT_EQ(error("{}", [](auto value) { value.at("a"); }),
            "a.json: key 'a' is missing; write it again");
  EXPECT_EQ(error("[]", [](auto value) { value.find("a"); }),
            "a.json: the content must be an object, not []; write it again");
  for (const char* text : {"1e300", "0.5", "-1", "9223372036854775808"})
    EXPECT_NE(error(text, [](auto value) { value.template whole<int>(0); }),
              "no error")
        << text;
  EXPECT_NE(error("-1", [](auto value) { value.template as<std::uint64_t>(); }),
            "no error");
  EXPECT_NE(error("\"1\"", [](auto value) { value.number(); }), "no error");
  EXPECT_NE(error("1", [](auto value) { value.truth(); }), "no error");
  EXPECT_NE(error("{}", [](auto value) { value.items(); }), "no error");
  EXPECT_EQ(error(R"({"nmae": 1})",
                  [](auto value) {
                    value.allow_only({"name", "hosts"});
                  }),
            "a.json: key 'nmae' is unknown; did you mean 'name'?; use one of "
            "name, hosts; write it again");
}

}  // namespace
}  // namespace sheaf
