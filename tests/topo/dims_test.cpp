#include "sheaf/topo/dims.hpp"

#include "tests/support/expect_error.hpp"

namespace sheaf::topo {
namespace {

TEST(Dims, ReadsOneToFourSizes) {
  EXPECT_EQ(parse_dims("4").sizes, (std::vector<int>{4}));
  EXPECT_EQ(parse_dims("4x3").sizes, (std::vector<int>{4, 3}));
  EXPECT_EQ(parse_dims("6x2x1x1").sizes, (std::vector<int>{6, 2, 1, 1}));
}

TEST(Dims, ProductAndText) {
  EXPECT_EQ(parse_dims("4x8x2").product(), 64);
  EXPECT_EQ(parse_dims("4x8x2").text(), "4x8x2");
  EXPECT_EQ(parse_dims("004x3").text(), "4x3");
  EXPECT_EQ(Dims{}.product(), 1);
}

TEST(Dims, RefusesWhatIsNotASize) {
  expect_throws<UsageError>([] { parse_dims(""); }, {"empty topology", "4x3"});
  expect_throws<UsageError>(
      [] { parse_dims("4x"); },
      {"'4x'", "dimension 1", "''", "not a whole number"});
  expect_throws<UsageError>([] { parse_dims("x3"); }, {"dimension 0"});
  expect_throws<UsageError>([] { parse_dims("4xa"); }, {"dimension 1", "'a'"});
  expect_throws<UsageError>([] { parse_dims("4x-3"); },
                            {"dimension 1", "'-3'"});
  expect_throws<UsageError>([] { parse_dims("4 x3"); },
                            {"dimension 0", "'4 '"});
  expect_throws<UsageError>([] { parse_dims("4*3"); },
                            {"'4*3'", "joined by x"});
  expect_throws<UsageError>([] { parse_dims("2.5"); }, {"'2.5'"});
}

TEST(Dims, RefusesZeroTooManyAndTooLarge) {
  expect_throws<UsageError>([] { parse_dims("4x0"); },
                            {"dimension 1 is 0", "1"});
  expect_throws<UsageError>([] { parse_dims("1x1x1x1x1"); },
                            {"5 dimensions", "at most 4"});
  expect_throws<UsageError>([] { parse_dims("99999999999"); },
                            {"not a whole number"});
  expect_throws<UsageError>([] { parse_dims("65536x65536"); }, {"more ranks"});
  EXPECT_EQ(parse_dims("65536x32767").product(), 65536 * 32767);
}

TEST(Dims, TheReadmeCaseNamesBothNumbers) {
  const Dims dims = parse_dims("4x8x2");
  expect_throws<UsageError>(
      [&] { check_fits(dims, 16); },
      {"4x8x2", "64 ranks", "16", "-n 64", "such as 4x4"});
  EXPECT_NO_THROW(check_fits(dims, 64));
}

TEST(Dims, SuggestsAFlatTopologyWhereTheFirstSizeDoesNotDivide) {
  expect_throws<UsageError>([] { check_fits(parse_dims("4x3"), 7); },
                            {"12", "there are 7", "such as 7"});
}

TEST(Dims, SuggestsOneHostWhereTheFirstSizeIsAllRanks) {
  expect_throws<UsageError>([] { check_fits(parse_dims("4x3"), 4); },
                            {"there are 4", "such as 4x1"});
}

}  // namespace
}  // namespace sheaf::topo
