#include "sheaf/halo/cuts.hpp"

#include <gtest/gtest.h>

#include "sheaf/halo/tiling.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::halo {
namespace {

TEST(IntervalTest, OfNoSizeIsNowhere) {
  const Interval none = intersect(Interval{0, 3}, Interval{5, 9});
  EXPECT_TRUE(none.is_empty());
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ((Interval{4, 2}.size()), 0);
  EXPECT_TRUE((Interval{1, 2}.contains(Interval{7, 7})));
  EXPECT_FALSE((Interval{1, 4}.contains(Interval{3, 5})));
  EXPECT_EQ(intersect(Interval{-2, 5}, Interval{3, 8}), (Interval{3, 5}));
  EXPECT_EQ(shift({3, 5}, -4), (Interval{-1, 1}));
}

TEST(CutsTest, BalancedPartsDifferByOneAtMost) {
  EXPECT_EQ(Cuts::balanced(55, 5).text(), "0|11|22|33|44|55");
  EXPECT_EQ(Cuts::balanced(29, 4).text(), "0|8|15|22|29");
  EXPECT_EQ(Cuts::balanced(2, 4).text(), "0|1|2|2|2");
  EXPECT_EQ(Cuts::balanced(0, 3).text(), "0|0|0|0");
}

TEST(CutsTest, KnowTheOwnerOfEachPosition) {
  const Cuts cuts({0, 0, 3, 3, 3, 7, 7});
  for (int position = 0; position < 7; ++position)
    EXPECT_EQ(cuts.owner(position), position < 3 ? 1 : 4);
  EXPECT_EQ(cuts[2], (Interval{3, 3}));
  EXPECT_EQ(cuts.owners({1, 3}), std::pair(1, 2));
  EXPECT_EQ(cuts.owners({2, 4}), std::pair(1, 5));
  EXPECT_EQ(cuts.owners({3, 3}), std::pair(0, 0));
  EXPECT_EQ(cuts.owners({-5, 50}), std::pair(1, 5));
  expect_throws<UsageError>([&] { cuts.owner(7); }, {"7", "0|0|3"});
  expect_throws<UsageError>([&] { cuts.owner(-1); }, {"-1"});
}

TEST(CutsTest, ThatAreNoneSayWhy) {
  expect_throws<UsageError>([] { Cuts({0}); }, {"P + 1 cuts", "1 are given"});
  expect_throws<UsageError>([] { Cuts({1, 4}); }, {"1|4", "the first cut"});
  expect_throws<UsageError>([] { Cuts({0, 5, 4}); }, {"0|5|4", "ascending"});
  expect_throws<UsageError>([] { Cuts::balanced(4, 0); }, {"0 parts"});
  expect_throws<UsageError>([] { Cuts::balanced(-1, 2); }, {"-1"});
}

TEST(GridTest, NumbersRanksRowByRow) {
  const Grid grid = Grid::parse("2x3");
  EXPECT_EQ(grid.axes(), 2);
  EXPECT_EQ(grid.ranks(), 6);
  EXPECT_EQ(grid.coordinates(4), (Coordinates{1, 1, 0}));
  const Grid volume = Grid::parse("2x3x4");
  for (int rank = 0; rank < 24; ++rank)
    EXPECT_EQ(volume.rank(volume.coordinates(rank)), rank);
  EXPECT_EQ(volume.coordinates(23), (Coordinates{1, 2, 3}));
  EXPECT_EQ(volume.text(), "2x3x4");
  EXPECT_EQ(Grid::parse("16").text(), "16");
  EXPECT_EQ(Grid().ranks(), 1);
}

TEST(GridTest, InvalidGridsAreErrorsWithExamples) {
  for (const char* text : {"", "x", "2x", "x2", "0x2", "-1", "2x2x2x2", "2 x2",
                           "2X2", "a", "2xx2", "99999999999"})
    expect_throws<UsageError>([&] { Grid::parse(text); },
                              {concat("'", text, "'"), "2x2"});
  expect_throws<UsageError>([] { Grid::parse("1048576x2"); }, {"ranks"});
  expect_throws<UsageError>([] { Grid::parse("2x2").coordinates(4); },
                            {"rank 4", "2x2", "0 to 3"});
  expect_throws<UsageError>([] { check_fits(Grid::parse("2x2"), 3); },
                            {"2x2", "4 ranks", "has 3"});
}

TEST(LayoutTest, GivesEachRankItsBox) {
  const Tiling tiling = Tiling::balanced(Grid::parse("2x3"), {9, 10});
  EXPECT_EQ(tiling.whole().volume(), 90);
  EXPECT_EQ(tiling.shape(), (std::vector<std::int64_t>{9, 10}));
  const Box box = tiling.box_of(5);
  EXPECT_EQ(box[0], (Interval{5, 9}));
  EXPECT_EQ(box[1], (Interval{7, 10}));
  EXPECT_EQ(box[2], (Interval{0, 1}));
  EXPECT_EQ(relative_to({{Interval{6, 8}, {7, 9}, {0, 1}}}, box)[0],
            (Interval{1, 3}));
}

TEST(LayoutTest, NeedsCutsThatFitTheGrid) {
  expect_throws<UsageError>(
      [] { Tiling(Grid::parse("2x2"), {Cuts::balanced(4, 2)}); },
      {"2 axes", "for 1"});
  expect_throws<UsageError>(
      [] {
        Tiling(Grid::parse("2x2"), {Cuts::balanced(4, 2), Cuts({0, 1, 2, 4})});
      },
      {"axis 1", "0|1|2|4", "3 parts"});
  expect_throws<UsageError>([] { Tiling::balanced(Grid::parse("2x2"), {4}); },
                            {"image has 1"});
}

}  // namespace
}  // namespace sheaf::halo
