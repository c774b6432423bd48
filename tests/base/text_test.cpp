#include "sheaf/base/text.hpp"

#include <gtest/gtest.h>

#include <array>

namespace sheaf {
namespace {

using Pieces = std::vector<std::string_view>;

TEST(Text, SplitKeepsEmptyPieces) {
  EXPECT_EQ(split("a,b", ','), (Pieces{"a", "b"}));
  EXPECT_EQ(split("a,,b,", ','), (Pieces{"a", "", "b", ""}));
  EXPECT_EQ(split("4x3", 'x'), (Pieces{"4", "3"}));
  EXPECT_EQ(split("", ','), Pieces{""});
}

TEST(Text, TrimTakesAwayBothEnds) {
  EXPECT_EQ(trim(" \t a b \r\n"), "a b");
  EXPECT_EQ(trim("a"), "a");
  EXPECT_EQ(trim("  "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Text, JoinIsTheReverseOfSplit) {
  EXPECT_EQ(join(split("a,,b,", ','), ","), "a,,b,");
  EXPECT_EQ(join(std::vector<std::string>{"a", "b"}, ", "), "a, b");
  EXPECT_EQ(join(std::vector<std::string>{}, ", "), "");
}

TEST(Text, EditDistanceCountsTheFourSlips) {
  EXPECT_EQ(edit_distance("ring", "ring"), 0u);
  EXPECT_EQ(edit_distance("ring", "rings"), 1u);
  EXPECT_EQ(edit_distance("ring", "rig"), 1u);
  EXPECT_EQ(edit_distance("ring", "rung"), 1u);
  EXPECT_EQ(edit_distance("ring", "rign"), 1u);
  EXPECT_EQ(edit_distance("ring", "irng"), 1u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

constexpr std::array<std::string_view, 4> kCommands{"run", "bench", "topo",
                                                    "dump"};

TEST(Text, NearestWordFindsASlip) {
  EXPECT_EQ(nearest_word("bnech", kCommands), "bench");
  EXPECT_EQ(nearest_word("ben", kCommands), "");
  EXPECT_EQ(nearest_word("topp", kCommands), "topo");
  EXPECT_EQ(did_you_mean("rum", kCommands), "; did you mean 'run'?");
}

TEST(Text, AnotherWordIsNotASlip) {
  EXPECT_EQ(nearest_word("allgather", kCommands), "");
  EXPECT_EQ(nearest_word("x", kCommands), "");
  EXPECT_EQ(nearest_word("", kCommands), "");
  EXPECT_EQ(nearest_word("run", {}), "");
  EXPECT_EQ(did_you_mean("allgather", kCommands), "");
  // One edit turns any letter into any other.
  EXPECT_EQ(nearest_word("a", std::array<std::string_view, 1>{"b"}), "");
}

TEST(Text, WidthCountsCharactersNotBytes) {
  EXPECT_EQ(display_width("µs"), 2u);
  EXPECT_EQ(display_width("us"), 2u);
  EXPECT_EQ(display_width(""), 0u);
}

TEST(Text, WordsAreWhatStandsBetweenWhiteSpace) {
  using Words = std::vector<std::string_view>;
  EXPECT_EQ(words(""), Words{});
  EXPECT_EQ(words(" \t\r\n"), Words{});
  EXPECT_EQ(words(" a\tbc \n d"), (Words{"a", "bc", "d"}));
}

TEST(Text, CountsAreDigitsOnly) {
  EXPECT_EQ(parse_count("0"), 0);
  EXPECT_EQ(parse_count("2147483647"), 2147483647);
  for (const char* wrong :
       {"", "-1", "-0", "+1", " 1", "1 ", "1.0", "0x1", "2147483648"})
    EXPECT_FALSE(parse_count(wrong)) << wrong;
}

// The table of distances would have 10^12 entries.
TEST(NearestWord, LongWordsHaveNone) {
  const std::string word(1'000'000, 'x');
  EXPECT_EQ(did_you_mean(word, std::vector<std::string_view>{"x", word}), "");
}

TEST(FindNotText, FindsBytesThatAreNotUtf8OrControlCharacters) {
  EXPECT_EQ(find_not_text("a\tb\r\n\u00e9\u20ac\U0001f600"), std::string::npos);
  EXPECT_EQ(find_not_text(std::string_view("ab\0", 3)), 2u);
  EXPECT_EQ(find_not_text("\x1b[0m"), 0u);
  EXPECT_EQ(find_not_text("a\x7f"), 1u);
  for (const char* bad :
       {"x\x80", "x\xc0\xaf", "x\xe2\x82", "x\xff", "x\xed\xa0\x80",
        "x\xf4\x90\x80\x80", "x\xe0\x80\xaf", "x\xf0\x80\x80\x80"})
    EXPECT_EQ(find_not_text(bad), 1u) << bad;
}

TEST(Printable, EscapesAndCuts) {
  EXPECT_EQ(printable("gr\u00fcn"), "gr\u00fcn");
  EXPECT_EQ(printable("a\n\x1b\xff"), "a\\x0a\\x1b\\xff");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("ab\u00e9", 3), "ab...");  // not half a character
}

}  // namespace
}  // namespace sheaf
