#include "sheaf/base/units.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

TEST(Units, BytesAreReadInPowersOf1024) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("8"), 8u);
  EXPECT_EQ(parse_bytes("8B"), 8u);
  EXPECT_EQ(parse_bytes("64K"), 65536u);
  EXPECT_EQ(parse_bytes("64k"), 65536u);
  EXPECT_EQ(parse_bytes("64KB"), 65536u);
  EXPECT_EQ(parse_bytes("1M"), 1048576u);
  EXPECT_EQ(parse_bytes("128MiB"), 134217728u);
  EXPECT_EQ(parse_bytes(" 128 MiB "), 134217728u);
  EXPECT_EQ(parse_bytes("1G"), 1073741824u);
  EXPECT_EQ(parse_bytes("1.5M"), 1572864u);
  EXPECT_EQ(parse_bytes("2T"), 2199023255552u);
}

TEST(Units, WhatIsNoSizeIsAnErrorThatQuotesIt) {
  for (const char* text : {"", "K", "12Q", "-1", "1.3", "1e3", "64 K 2", "0x10",
                           "inf", "nan", "9999999T", "12KiBs", "1,5M"}) {
    SCOPED_TRACE(text);
    expect_throws<UsageError>([&] { parse_bytes(text); },
                              {"'" + std::string(text) + "'"});
  }
}

TEST(Units, BytesAreWrittenShort) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1 KiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(100 * 1024), "100 KiB");
  EXPECT_EQ(format_bytes(64ull << 20), "64 MiB");
  EXPECT_EQ(format_bytes((1ull << 20) - 1), "1 MiB");
  EXPECT_EQ(format_bytes(1ull << 50), "1 PiB");
}

TEST(Units, ExactBytesAreReadBack) {
  EXPECT_EQ(format_bytes_exactly(65536), "64K");
  EXPECT_EQ(format_bytes_exactly(1000), "1000");
  EXPECT_EQ(format_bytes_exactly(0), "0");
  for (std::uint64_t bytes : {0ull, 1ull, 1000ull, 1024ull, 1025ull << 20,
                              3ull << 40, (1ull << 53) - 1})
    EXPECT_EQ(parse_bytes(format_bytes_exactly(bytes)), bytes);
}

TEST(Units, DurationsAreRead) {
  EXPECT_EQ(parse_duration("500ms"), nanoseconds(500ms));
  EXPECT_EQ(parse_duration("30s"), nanoseconds(30s));
  EXPECT_EQ(parse_duration("5m"), nanoseconds(5min));
  EXPECT_EQ(parse_duration("5 min"), nanoseconds(5min));
  EXPECT_EQ(parse_duration("1.5h"), nanoseconds(90min));
  EXPECT_EQ(parse_duration("20us"), 20000ns);
  EXPECT_EQ(parse_duration("20µs"), 20000ns);
  EXPECT_EQ(parse_duration("7ns"), 7ns);
  EXPECT_EQ(parse_duration("0"), 0ns);
}

TEST(Units, WhatIsNoDurationIsAnError) {
  for (const char* text : {"", "30", "s", "-1s", "5 weeks", "1e300s", "1h30m"})
    EXPECT_THROW(parse_duration(text), UsageError) << text;
  expect_throws<UsageError>([] { parse_duration("2628000h"); },
                            {"'2628000h'", "too long", "290 years"});
}

TEST(Units, DurationsAreWrittenForPeople) {
  EXPECT_EQ(format_duration(640ns), "640 ns");
  EXPECT_EQ(format_duration(999ns), "999 ns");
  EXPECT_EQ(format_duration(1000ns), "1.00 us");
  EXPECT_EQ(format_duration(9994ns), "9.99 us");
  EXPECT_EQ(format_duration(9995ns), "10.0 us");
  EXPECT_EQ(format_duration(12300ns), "12.3 us");
  EXPECT_EQ(format_duration(4560us), "4.56 ms");
  EXPECT_EQ(format_duration(999999ns), "1.00 ms");
  EXPECT_EQ(format_duration(123ms), "123 ms");
  EXPECT_EQ(format_duration(30s), "30.0 s");
  EXPECT_EQ(format_duration(59999ms), "1 min 00 s");
  EXPECT_EQ(format_duration(125s), "2 min 05 s");
  EXPECT_EQ(format_duration(187min), "3 h 07 min");
  EXPECT_EQ(format_duration(-30s), "-30.0 s");
}

}  // namespace
}  // namespace sheaf
