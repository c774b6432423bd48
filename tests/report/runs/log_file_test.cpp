#include "sheaf/report/runs/log_file.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/report/runs/run_files.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::report {
namespace {

class LogFile : public testing::Test {
 protected:
  Log read(const std::string& text) const {
    return read_log(files_.write("run", "log.jsonl", text) / "log.jsonl");
  }
  RunFiles files_;
};

TEST_F(LogFile, ColumnsHaveAPlaceForEachRow) {
  const Log log =
      read(R"({"kind": "batch", "step": 0, "loss": 2.5, "name": "text", )"
           R"("early": 3})"
           "\n"
           R"({"kind": "batch", "step": 1, "loss": null, "late": 7})"
           "\n\n"
           R"({"kind": "epoch", "epoch": 0, "is_best": true})"
           "\n");
  const Rows& rows = log.rows("batch");
  ASSERT_EQ(rows.count, 2u);
  EXPECT_EQ(rows.get("step"), (std::vector<double>{0, 1}));
  EXPECT_EQ(rows.get("loss")[0], 2.5);
  EXPECT_TRUE(std::isnan(rows.get("loss")[1]));
  EXPECT_TRUE(std::isnan(rows.get("late")[0]));
  EXPECT_EQ(rows.get("late")[1], 7);
  ASSERT_EQ(rows.get("early").size(), 2u);
  EXPECT_TRUE(std::isnan(rows.get("early")[1]));
  EXPECT_FALSE(rows.has("name"));
  EXPECT_TRUE(std::isnan(rows.get("unknown")[1]));
  EXPECT_EQ(log.rows("epoch").get("is_best")[0], 1);
  EXPECT_EQ(log.rows("test").count, 0u);
  EXPECT_EQ(log.note, "");
}

TEST_F(LogFile, LayersKeepWhatTheyTell) {
  const Log log =
      read(R"({"kind": "layers", "step": 3, "layers": [)"
           R"({"name": "a", "route": "rank-dad", "bytes": 12, "rank": 4},)"
           R"({"name": "b"}]})"
           "\n");
  ASSERT_EQ(log.layers.size(), 1u);
  EXPECT_EQ(log.layers[0].step, 3);
  ASSERT_EQ(log.layers[0].layers.size(), 2u);
  EXPECT_EQ(log.layers[0].layers[0].route, "rank-dad");
  EXPECT_EQ(log.layers[0].layers[0].rank, 4);
  EXPECT_TRUE(std::isnan(log.layers[0].layers[0].exchange_ms));
  EXPECT_TRUE(std::isnan(log.layers[0].layers[1].bytes));
}

TEST_F(LogFile, ABadLineIsNamed) {
  const std::string good = "{\"kind\": \"batch\", \"step\": 0}\n";
  for (const char* bad :
       {"{\"kind\": \"batch\", \"st", "no json", "[1, 2]", "{\"step\": 1}",
        "{\"kind\": \"layers\", \"step\": 1}"})
    expect_throws<IoError>([&] { read(good + bad + "\n" + good); },
                           {"log.jsonl:2: "});
  expect_throws<IoError>([&] { read(good + "[1, 2]\n" + good); },
                         {"log.jsonl:2: the content must be an object"});
  expect_throws<IoError>([&] { read(good + "{\"step\": 1}\n" + good); },
                         {"log.jsonl:2: key 'kind' is missing"});
}

// 20,000 rows with 20,000 columns would take 3 GB.
TEST_F(LogFile, RowsWithManyDifferentKeysAreAnError) {
  std::string text;
  for (int i = 0; i < 20'000; ++i)
    text += fmt::format("{{\"kind\": \"batch\", \"k{}\": 1}}\n", i);
  expect_throws<IoError>([&] { read(text); },
                         {"log.jsonl:", "too many different keys"});
  text.clear();
  for (int i = 0; i < 20'000; ++i)
    text += fmt::format(
        "{{\"kind\": \"layers\", \"layers\": [{{\"name\": \"{}\"}}]}}\n", i);
  expect_throws<IoError>([&] { read(text); },
                         {"log.jsonl:", "too many different layers"});
}

TEST_F(LogFile, RefusesValuesThatNoLogHas) {
  const std::string good = "{\"kind\": \"batch\", \"step\": 0}\n";
  for (const std::string& bad :
       {std::string("{\"kind\": 1}"), std::string("{\"kind\": \"\"}"),
        std::string("{\"kind\": \"b\", \"a\": 1, \"a\": 2}"),
        std::string("{\"kind\": \"b\", \"a\": 1e999}"),
        std::string("{\"kind\": \"layers\", \"layers\": [1]}"),
        std::string(1 << 20, '['), std::string("{\"kind\": \"\xff\"}")})
    expect_throws<IoError>([&] { read(good + bad + "\n" + good); },
                           {"log.jsonl:2: ", "fix or remove this line"});
}

TEST_F(LogFile, ALastLineThatIsCutOffIsLeftOut) {
  const Log log =
      read("{\"kind\": \"batch\", \"step\": 0}\n{\"kind\": \"batch\", \"st");
  EXPECT_EQ(log.rows("batch").count, 1u);
  EXPECT_NE(log.note.find("log.jsonl:2: "), std::string::npos) << log.note;
  // A line that ends with a newline is complete.
  expect_throws<IoError>([&] { read("{\"kind\": \"batch\", \"st\n"); },
                         {"log.jsonl:1: "});
}

TEST_F(LogFile, AMissingFileIsNamed) {
  expect_throws<IoError>([&] { read_log(files_.path() / "none.jsonl"); },
                         {"none.jsonl"});
}

}  // namespace
}  // namespace sheaf::report
