#include "sheaf/cli/launch/rank_report.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"

namespace sheaf::cli {
namespace {

RankReport make(int rank, int code, std::int64_t time_ns = 0,
                const std::string& host = "a") {
  RankReport report;
  report.rank = rank;
  report.host = host;
  report.pid = 1234;
  report.code = code;
  report.time_ns = time_ns;
  return report;
}

TEST(Report, SurvivesTheWire) {
  RankReport report = make(3, 127, 1'700'000'000'123'456'789);
  report.was_asked = true;
  report.start_error = "could not start 'a b': No such file";
  report.is_consequence = true;
  report.error = "cannot write x: No space left on device";
  EXPECT_EQ(parse_report(3, encode_report(report)), report);
  EXPECT_EQ(parse_report(0, encode_report(make(0, 0))), make(0, 0));
  EXPECT_THROW(parse_report(0, "host x"), InternalError);
}

TEST(Report, SaysHowItEnded) {
  RankReport report = make(2, 3);
  EXPECT_EQ(describe(report), "rank 2 (host a, pid 1234) exited with code 3");
  report.signal = 9;
  EXPECT_EQ(describe(report),
            "rank 2 (host a, pid 1234) was killed by signal 9 (SIGKILL)");
  report.start_error = "could not start 'x': why";
  EXPECT_EQ(describe(report),
            "rank 2 (host a, pid 1234) could not start 'x': why");
}

TEST(ReportBook, TheFirstFailureIsTheEarliestOfItsHost) {
  ReportBook book;
  EXPECT_EQ(book.first_failure(), nullptr);
  EXPECT_TRUE(book.add(make(0, 0, 1)));
  EXPECT_FALSE(book.has_failure());
  EXPECT_TRUE(book.add(make(1, 3, 50, "a")));
  EXPECT_TRUE(book.add(make(2, 4, 10, "b")));  // another clock
  EXPECT_EQ(book.first_failure()->rank, 1);
  EXPECT_TRUE(book.add(make(3, 5, 40, "a")));  // overtaken on its way
  EXPECT_EQ(book.first_failure()->rank, 3);
  EXPECT_EQ(book.count(), 4);
}

// A rank that failed because of another rank is not reported first, whatever
// the order of reports and ends.
TEST(ReportBook, AConsequenceIsNotFirst) {
  ReportBook book;
  RankReport other = make(1, 3, 10);
  other.is_consequence = true;
  book.add(other);
  EXPECT_EQ(book.first_failure()->rank, 1);  // as long as nobody else failed
  book.add(make(0, 5, 50));
  EXPECT_EQ(book.first_failure()->rank, 0);
  other.rank = 2;
  other.time_ns = 5;
  book.add(other);
  EXPECT_EQ(book.first_failure()->rank, 0);
}

TEST(ReportBook, CountsARankOnce) {
  ReportBook book;
  EXPECT_TRUE(book.add(make(1, 3)));
  EXPECT_FALSE(book.add(make(1, 3)));
  EXPECT_EQ(book.count(), 1);
  EXPECT_TRUE(book.has(1));
  EXPECT_FALSE(book.has(0));
}

TEST(ReportBook, RanksThatWereStoppedDidNotFail) {
  ReportBook book;
  RankReport report = make(1, 143);
  report.was_asked = true;
  book.add(report);
  EXPECT_FALSE(book.has_failure());
  ASSERT_NE(book.first_asked(), nullptr);
  EXPECT_EQ(book.first_asked()->code, 143);
}

}  // namespace
}  // namespace sheaf::cli
