#include "sheaf/topo/text.hpp"

#include <gtest/gtest.h>

namespace sheaf::topo {
namespace {

TEST(TopoText, WordsAreWhatStandsBetweenWhiteSpace) {
  using Words = std::vector<std::string_view>;
  EXPECT_EQ(words(""), Words{});
  EXPECT_EQ(words(" \t\r\n"), Words{});
  EXPECT_EQ(words(" a\tbc \n d"), (Words{"a", "bc", "d"}));
}

TEST(TopoText, CountsAreDigitsOnly) {
  EXPECT_EQ(parse_count("0"), 0);
  EXPECT_EQ(parse_count("2147483647"), 2147483647);
  for (const char* wrong :
       {"", "-1", "-0", "+1", " 1", "1 ", "1.0", "0x1", "2147483648"})
    EXPECT_FALSE(parse_count(wrong)) << wrong;
}

}  // namespace
}  // namespace sheaf::topo
