#include "sheaf/base/table.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sheaf/base/error.hpp"

namespace sheaf {
namespace {

Table small_table() {
  Table table({{.name = "size", .unit = "B", .key = "size_bytes"},
               {.name = "op", .align = Align::kLeft},
               {.name = "time", .unit = "us", .key = "time_us", .decimals = 1},
               {.name = "buffer", .in_text = false}});
  table.add_row({8, "sum", 0.25, "arena"});
  table.add_row({std::size_t{1} << 20, "a,\"b\"", 12345.678, "plain"});
  table.add_row({Cell(), "x", std::numeric_limits<double>::quiet_NaN(), true});
  return table;
}

std::string printed(const Table& table, TableFormat format) {
  std::ostringstream out;
  table.print(out, format);
  return out.str();
}

TEST(Table, TextIsAligned) {
  EXPECT_EQ(printed(small_table(), TableFormat::kText),
            "   size  op        time\n"
            "    (B)            (us)\n"
            "      8  sum        0.2\n"
            "1048576  a,\"b\"  12345.7\n"
            "      -  x            -\n");
}

TEST(Table, TextWithoutUnitsHasOneHeadingLine) {
  Table table({{.name = "rank"}, {.name = "host", .align = Align::kLeft}});
  table.add_row({0, "node1"});
  EXPECT_EQ(printed(table, TableFormat::kText), "rank  host\n   0  node1\n");
}

TEST(Table, CsvQuotesWhatNeedsIt) {
  EXPECT_EQ(printed(small_table(), TableFormat::kCsv),
            "size_bytes,op,time_us,buffer\n"
            "8,sum,0.25,arena\n"
            "1048576,\"a,\"\"b\"\"\",12345.678,plain\n"
            ",x,,true\n");
}

TEST(Table, JsonHasOneObjectPerLineInOrder) {
  std::istringstream lines(printed(small_table(), TableFormat::kJson));
  std::string line;
  std::vector<nlohmann::ordered_json> rows;
  while (std::getline(lines, line))
    rows.push_back(nlohmann::ordered_json::parse(line));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].begin().key(), "size_bytes");
  EXPECT_EQ(rows[0]["size_bytes"], 8);
  EXPECT_EQ(rows[1]["op"], "a,\"b\"");
  EXPECT_EQ(rows[1]["time_us"], 12345.678);
  EXPECT_TRUE(rows[2]["size_bytes"].is_null());
  EXPECT_TRUE(rows[2]["time_us"].is_null());
  EXPECT_EQ(rows[2]["buffer"], true);
}

TEST(Table, JsonKeepsEveryDigit) {
  EXPECT_EQ(Cell(std::numeric_limits<std::uint64_t>::max()).as_json(),
            "18446744073709551615");
  EXPECT_EQ(Cell(std::numeric_limits<std::int64_t>::min()).as_json(),
            "-9223372036854775808");
  EXPECT_EQ(nlohmann::json::parse(Cell(0.1).as_json()).get<double>(), 0.1);
  EXPECT_EQ(Cell("\n\"").as_json(), "\"\\n\\\"\"");
  EXPECT_NO_THROW(nlohmann::json::parse(Cell("\xff").as_json()));
}

TEST(Table, AStreamPrintsEachRowAtOnce) {
  Table table({{.name = "size", .min_width = 8}, {.name = "ok"}});
  std::ostringstream out;
  table.stream_to(out, TableFormat::kText);
  EXPECT_EQ(out.str(), "    size  ok\n");
  table.add_row({8, true});
  EXPECT_EQ(out.str(), "    size  ok\n       8  yes\n");
  table.add_row({1234567890, false});
  EXPECT_EQ(out.str(), "    size  ok\n       8  yes\n1234567890  no\n");
  EXPECT_EQ(table.rows().size(), 2u);
}

TEST(Table, AStreamBeginsWithTheRowsSoFar) {
  Table table = small_table();
  std::ostringstream out;
  table.stream_to(out, TableFormat::kCsv);
  EXPECT_EQ(out.str(), printed(table, TableFormat::kCsv));
}

TEST(Table, WidthIsCountedInCharacters) {
  Table table({{.name = "µs"}, {.name = "n"}});
  table.add_row({10, 1});
  EXPECT_EQ(printed(table, TableFormat::kText), "µs  n\n10  1\n");
}

TEST(Table, MistakesAreErrors) {
  EXPECT_THROW(Table({{.name = "a"}, {.name = "b", .key = "a"}}), UsageError);
  Table table({{.name = "a"}, {.name = "b"}});
  EXPECT_THROW(table.add_row({1}), UsageError);
  EXPECT_THROW(parse_table_format("jsn"), UsageError);
  EXPECT_EQ(parse_table_format("json"), TableFormat::kJson);
}

}  // namespace
}  // namespace sheaf
