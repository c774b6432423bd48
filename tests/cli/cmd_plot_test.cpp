#include <gtest/gtest.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "sheaf/base/files.hpp"
#include "tests/cli/call_sheaf.hpp"
#include "tests/report/runs/run_files.hpp"
#include "tests/support/missing.hpp"

namespace sheaf::cli {
namespace {

namespace fs = std::filesystem;

class PlotCommand : public testing::Test {
 protected:
  PlotCommand()
      : slow_(files_.write_batches("x_slow", 12, 20).string()),
        fast_(files_.write_batches("x_fast", 10, 10).string() + "/") {}
  std::string out(const std::string& name = "") const {
    return (files_.path() / "out" / name).string();
  }

  report::RunFiles files_;
  std::string slow_, fast_;
};

// While it exists, no programs are found.
class NoPath {
 public:
  NoPath() { setenv("PATH", "/nonexistent", 1); }
  ~NoPath() { setenv("PATH", before_.c_str(), 1); }
  NoPath(const NoPath&) = delete;
  NoPath& operator=(const NoPath&) = delete;

 private:
  const std::string before_ = getenv("PATH") ? getenv("PATH") : "";
};

TEST_F(PlotCommand, TakesSingleAndDoubleDashes) {
  for (const std::string dash : {"-", "--"}) {
    const CallOutcome plot =
        call_sheaf({"plot", dash + "paths", slow_, fast_, dash + "keys",
                    "batch_duration", "loss", "-o", out()});
    EXPECT_EQ(plot.code, 0) << plot.err;
    for (const char* part : {"slow", "fast", "batch_duration", "loss", "ms"})
      EXPECT_TRUE(has(plot.out, part)) << part << " in\n" << plot.out;
    EXPECT_TRUE(
        has(plot.err, "only 5 batches are compared, the number that fast"))
        << plot.err;
    EXPECT_TRUE(has(read_file(out("batch_duration.svg")), ">fast<"));
    EXPECT_TRUE(has(read_file(out("table.csv")), "loss,slow,5,"));
    fs::remove_all(out());
  }
}

TEST_F(PlotCommand, DrawsTheBatchTimeByItself) {
  const CallOutcome plot =
      call_sheaf({"plot", slow_, fast_, "--label", "one", "two", "--warm-up",
                  "0", "-o", out("first"), "--json"});
  EXPECT_EQ(plot.code, 0) << plot.err;
  std::istringstream lines(plot.out);
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(lines, line);)
    rows.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["key"], "batch_duration");
  EXPECT_EQ(rows[1]["run"], "two");
  EXPECT_EQ(rows[1]["batches"], 10);
  EXPECT_EQ(rows[1]["median"], 14.5);
  EXPECT_DOUBLE_EQ(rows[1]["speed_up"], 245.0 / 145);
  EXPECT_TRUE(fs::exists(out("first_batch_duration.svg")));
}

TEST_F(PlotCommand, WritesPngWhereItCan) {
  const std::vector<std::string> words{"plot", slow_, "-o", out()};
  {
    const NoPath no_path;
    const CallOutcome plot = call_sheaf(words);
    EXPECT_EQ(plot.code, 0) << plot.err;
    EXPECT_TRUE(has(plot.err, "librsvg2-bin")) << plot.err;
    EXPECT_FALSE(fs::exists(out("batch_duration.png")));
  }
  const CallOutcome plot = call_sheaf(words);
  if (has(plot.err, "librsvg2-bin"))
    SHEAF_SKIP_MISSING("rsvg-convert is missing");
  const std::string png = read_file(out("batch_duration.png"));
  EXPECT_EQ(png.substr(1, 3), "PNG");
  EXPECT_GT(png.size(), 5000u);
  for (const auto& entry : fs::directory_iterator(out()))
    EXPECT_FALSE(has(entry.path().string(), ".tmp.")) << entry.path();
}

TEST_F(PlotCommand, AMissingKeyIsAnErrorOrSkipped) {
  const CallOutcome plot =
      call_sheaf({"plot", slow_, fast_, "--keys", "forward_duration"});
  EXPECT_EQ(plot.code, 2);
  EXPECT_TRUE(has(plot.err, "is missing in slow (")) << plot.err;
  EXPECT_TRUE(has(plot.err, "all runs have batch_duration")) << plot.err;
  const CallOutcome skipped =
      call_sheaf({"plot", slow_, "--keys", "forward_duration", "loss",
                  "--skip-missing", "-o", out()});
  EXPECT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_FALSE(fs::exists(out("forward_duration.svg")));
  EXPECT_TRUE(fs::exists(out("loss.svg")));
}

TEST_F(PlotCommand, WrongUseHasItsCodes) {
  EXPECT_EQ(call_sheaf({"plot"}).code, 2);
  EXPECT_EQ(call_sheaf({"plot", "/nonexistent"}).code, 5);
  EXPECT_EQ(call_sheaf({"plot", slow_, "--label", "a", "b"}).code, 2);
  files_.write("bad", "log.jsonl", "{\n{}\n");
  const CallOutcome bad =
      call_sheaf({"plot", (files_.path() / "bad").string()});
  EXPECT_EQ(bad.code, 5);
  EXPECT_TRUE(has(bad.err, "log.jsonl:1: ")) << bad.err;
}

TEST_F(PlotCommand, ReportWritesAPage) {
  const std::string page = (files_.path() / "r.html").string();
  const CallOutcome report =
      call_sheaf({"report", slow_, fast_, "-o", page, "--title", "A < B"});
  if (has(report.err, "without ECharts")) {
    EXPECT_EQ(report.code, 2);
    EXPECT_TRUE(has(report.err, "scripts/install-deps"));
    SHEAF_SKIP_MISSING("built without ECharts");
  }
  EXPECT_EQ(report.code, 0) << report.err;
  EXPECT_EQ(report.out, page + "\n");
  EXPECT_TRUE(has(read_file(page), "<h1>A &lt; B</h1>"));
  EXPECT_EQ(call_sheaf({"report"}).code, 2);
  EXPECT_EQ(call_sheaf({"report", slow_, "-o", "/nonexistent/r.html"}).code, 5);
}

}  // namespace
}  // namespace sheaf::cli
