#include "sheaf/report/draw/figure.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sheaf::report {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos;
       at += part.size())
    ++found;
  return found;
}

Comparison comparison_of(const std::string& key, std::size_t length) {
  Comparison comparison{.key = key, .warm_up = 5, .runs = {}, .notes = {}};
  for (const double ms : {10.0, 20.0})
    comparison.runs.push_back({.label = ms == 10 ? "fast" : "slow",
                               .values = std::vector<double>(length, ms),
                               .bytes = 0});
  return comparison;
}

TEST(Figure, TimesAreDrawnSummedUpAndOneByOne) {
  const Figure figure = figure_of(comparison_of("batch_duration", 100));
  EXPECT_EQ(figure.legend, (std::vector<std::string>{"fast", "slow"}));
  ASSERT_EQ(figure.panels.size(), 2u);
  EXPECT_EQ(figure.panels[0].y_label, "s");
  const Curve& slow = figure.panels[0].curves[1];
  EXPECT_EQ(slow.points.front().x, 5);
  EXPECT_EQ(slow.points.back().x, 104);
  EXPECT_NEAR(slow.points.back().y, 2, 1e-12);
  EXPECT_EQ(figure.panels[1].y_label, "ms");
  EXPECT_EQ(figure.panels[1].curves[1].points.size(), 100u);
  EXPECT_TRUE(figure.panels[1].curves[1].band.empty());
}

TEST(Figure, OthersAreNotSummedUp) {
  EXPECT_EQ(figure_of(comparison_of("loss", 10)).panels.size(), 1u);
}

TEST(Figure, ManyBatchesBecomeMediansInABand) {
  Comparison comparison = comparison_of("batch_duration", 3000);
  comparison.runs[0].values[1] = 1e6;  // one wild batch does not show
  const Figure figure = figure_of(comparison);
  const Curve& curve = figure.panels[1].curves[0];
  EXPECT_EQ(curve.points.size(), 150u);
  EXPECT_EQ(curve.band.size(), 150u);
  EXPECT_EQ(curve.points[0].y, 10);
  EXPECT_EQ(curve.band[0].y, 10);
  EXPECT_NE(figure.footnote.find("every 20 batches"), std::string::npos);
}

TEST(Figure, LongSumsKeepEveryFourthBatchAndTheLast) {
  const Figure figure = figure_of(comparison_of("batch_duration", 3003));
  const Curve& curve = figure.panels[0].curves[0];
  ASSERT_EQ(curve.points.size(), 752u);  // 0, 4, ..., 3000 and 3002
  EXPECT_EQ(curve.points[750].x, 5 + 3000);
  EXPECT_EQ(curve.points[751].x, 5 + 3002);
  EXPECT_DOUBLE_EQ(curve.points[751].y, 30.03);
}

TEST(Figure, UnitsChangeAtPowersOfAThousand) {
  const auto unit_of_batches = [](double ms) {
    Comparison comparison = comparison_of("batch_duration", 1);
    for (ComparedRun& run : comparison.runs) run.values = {ms};
    return figure_of(comparison).panels[1].y_label;
  };
  EXPECT_EQ(unit_of_batches(0.999), "µs");
  EXPECT_EQ(unit_of_batches(1), "ms");
  EXPECT_EQ(unit_of_batches(999.5), "ms");
  EXPECT_EQ(unit_of_batches(1000), "s");
  EXPECT_EQ(unit_of_batches(599'999), "s");
  EXPECT_EQ(unit_of_batches(600'000), "min");
}

TEST(Figure, GapsAreLeftOut) {
  Comparison comparison = comparison_of("batch_duration", 4);
  comparison.runs[0].values[2] = std::numeric_limits<double>::quiet_NaN();
  const Figure figure = figure_of(comparison);
  EXPECT_EQ(figure.panels[1].curves[0].points.size(), 3u);
  EXPECT_EQ(figure.panels[0].curves[0].points.back().y, 30);
}

TEST(Svg, HasLinesLegendAndUnits) {
  const std::string svg =
      svg_of(draw(figure_of(comparison_of("batch_duration", 100))));
  EXPECT_EQ(count(svg, "class=\"line s0\""), 3u);  // legend and two panels
  EXPECT_EQ(count(svg, "class=\"line s1\""), 3u);
  for (const char* part :
       {">fast<", ">slow<", ">batch_duration<", ">Cumulative (s)<",
        ">Each batch (ms)<", ">batch<", "prefers-color-scheme: dark"})
    EXPECT_EQ(count(svg, part) > 0, true) << part;
  EXPECT_EQ(count(svg, "nan"), 0u);
  EXPECT_EQ(count(svg, "inf"), 0u);
}

TEST(Svg, EscapesTextsAndHasALightForm) {
  Comparison comparison = comparison_of("batch_duration", 1);
  comparison.runs[0].label = "a<b>&\"\x01";
  const std::string svg =
      svg_of(draw(figure_of(comparison)), {.has_dark = false});
  EXPECT_EQ(count(svg, ">a&lt;b&gt;&amp;&quot;<"), 1u);
  EXPECT_EQ(count(svg, "prefers-color-scheme"), 0u);
}

TEST(Svg, NinthRunIsDashed) {
  Comparison comparison = comparison_of("batch_duration", 3);
  comparison.runs.resize(9, comparison.runs[0]);
  EXPECT_EQ(count(svg_of(draw(figure_of(comparison))), "line s0 again"), 3u);
}

// The marks once never reached the end, and filled the memory.
TEST(Ticks, OfNumbersThatHardlyDifferEnd) {
  const double next = std::nextafter(1e300, 2e300);
  EXPECT_LE(ticks(1e300, next, 5).size(), 11u);
  EXPECT_LE(ticks(1e17, std::nextafter(1e17, 2e17), 5).size(), 11u);
  EXPECT_LE(ticks(-1e308, 1e308, 5).size(), 11u);
  EXPECT_LE(ticks(0, 5e-324, 5).size(), 11u);
}

TEST(Figure, ValuesThatOverflowAreLeftOut) {
  Comparison comparison{
      .key = "batch_duration", .warm_up = 0, .runs = {}, .notes = {}};
  comparison.runs.push_back(
      {.label = "a", .values = {1e308, 1e308, 5, 1e308}, .bytes = 0});
  for (const Panel& panel : figure_of(comparison).panels)
    for (const Curve& curve : panel.curves)
      for (const Point& point : curve.points)
        EXPECT_TRUE(std::isfinite(point.y));
}

TEST(Ticks, AreRound) {
  EXPECT_EQ(ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(ticks(3, 17, 3), (std::vector<double>{5, 10, 15}));
  EXPECT_EQ(ticks(-1, 1, 4), (std::vector<double>{-1, -0.5, 0, 0.5, 1}));
  EXPECT_EQ(tick_text(0, 1), "0");
  EXPECT_EQ(tick_text(0.05, 0.05), "0.05");
  EXPECT_EQ(tick_text(1500, 500), "1500");
  EXPECT_EQ(tick_text(2000, 1000), "2k");
  EXPECT_EQ(tick_text(12500, 500), "12.5k");
  EXPECT_EQ(tick_text(3e6, 1e6), "3M");
  EXPECT_EQ(tick_text(-0.5, 0.5), "-0.5");
}

}  // namespace
}  // namespace sheaf::report
