#include "sheaf/plan/trace/trace_numbers.hpp"

#include <gtest/gtest.h>

namespace sheaf::plan {
namespace {

TEST(TraceNumbers, TimesAreExact) {
  EXPECT_EQ(parse_nanoseconds("0"), 0);
  EXPECT_EQ(parse_nanoseconds("1.5"), 1500);
  EXPECT_EQ(parse_nanoseconds("-1.5"), -1500);
  EXPECT_EQ(parse_nanoseconds("0.9999"), 999);
  EXPECT_EQ(parse_nanoseconds("7."), 7000);
  EXPECT_EQ(parse_nanoseconds("1.5e3"), 1500000);
  EXPECT_EQ(parse_nanoseconds("1712195495000001.234"), 1712195495000001234);
  EXPECT_EQ(parse_nanoseconds("1712195495000001234"), 1712195495000001234);
  EXPECT_EQ(parse_nanoseconds("4000000000000000000"), kLatestNs);
  EXPECT_EQ(parse_nanoseconds("4000000000000000"), kLatestNs);
}

TEST(TraceNumbers, TimesThatOverflowAreNone) {
  for (const char* text :
       {"4000000000000000001", "4000000000000001", "99999999999999999999",
        "18446744073709551616", "1e300", "-1e300", "5e18",
        "99999999999999999999999999999999999999999999999999.5"})
    EXPECT_EQ(parse_nanoseconds(text), std::nullopt) << text;
}

TEST(TraceNumbers, OtherTextIsNone) {
  for (const char* text : {"", "-", ".", ".5", "1.2.3", "1.x", "x", "--1",
                           "nan", "inf", "1e", "0x10", "1 ", " 1", "+1"})
    EXPECT_EQ(parse_nanoseconds(text), std::nullopt) << text;
}

TEST(TraceNumbers, Integers) {
  EXPECT_EQ(parse_integer("-7"), -7);
  EXPECT_EQ(parse_integer("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(parse_integer("1e3"), 1000);
  EXPECT_EQ(parse_integer("8.0"), 8);
  for (const char* text :
       {"", "9223372036854775808", "1.5", "1e300", "x", "7x", "nan", "inf"})
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
}

}  // namespace
}  // namespace sheaf::plan
