#include <gtest/gtest.h>

#include "sheaf/report/draw/figure.hpp"

namespace sheaf::report {
namespace {

// A line from (0, 0) to (10, 4): the panel's axes go to 10 and to 4.16, and its
// upper left corner is at (70, 90).
Figure one_line() {
  return {"title",
          {"a"},
          {{"panel", "s", "batch", {{0, {{0, 0}, {10, 4}}}}}},
          "note"};
}

template <class Shape>
std::vector<Shape> shapes_of(const Scene& scene, const std::string& style) {
  std::vector<Shape> found;
  for (const auto& shape : scene.shapes)
    if (const Shape* one = std::get_if<Shape>(&shape);
        one && one->style == style)
      found.push_back(*one);
  return found;
}

TEST(Draw, AxesHaveMarksAtRoundNumbers) {
  const Scene scene = draw(one_line());
  const auto labels = shapes_of<Label>(scene, "small faint");
  ASSERT_EQ(labels.size(), 5u + 6u + 2u);  // rows, columns, axis and footnote
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(labels[i].text, std::to_string(i));
    EXPECT_EQ(labels[i].anchor, Anchor::kEnd);
    EXPECT_EQ(labels[i].at.x, 62);
  }
  const auto marks = shapes_of<Path>(scene, "axis");
  ASSERT_EQ(marks.size(), 6u + 1u);
  for (std::size_t i = 0; i < 6; ++i) {
    const double x = 70 + 68 * static_cast<double>(i);
    EXPECT_EQ(labels[5 + i].text, std::to_string(2 * i));
    EXPECT_DOUBLE_EQ(labels[5 + i].at.x, x);
    EXPECT_EQ(labels[5 + i].at.y, 338);
    ASSERT_EQ(marks[i].points.size(), 2u);
    EXPECT_DOUBLE_EQ(marks[i].points[0].x, x);
    EXPECT_EQ(marks[i].points[0].y, 320);
    EXPECT_EQ(marks[i].points[1].y, 324);
  }
  EXPECT_EQ(labels[11].text, "batch");
}

TEST(Draw, LinesGoThroughAllPoints) {
  const auto lines = shapes_of<Path>(draw(one_line()), "line 0");
  ASSERT_EQ(lines.size(), 2u);  // the legend's sample and the curve
  EXPECT_EQ(lines[0].points[0].x, 70);
  EXPECT_EQ(lines[0].points[0].y, 48);
  ASSERT_EQ(lines[1].points.size(), 2u);
  EXPECT_EQ(lines[1].points[0].x, 70);
  EXPECT_EQ(lines[1].points[0].y, 320);
  EXPECT_EQ(lines[1].points[1].x, 410);
  EXPECT_NEAR(lines[1].points[1].y, 90 + 0.16 / 4.16 * 230, 1e-9);
}

TEST(Draw, ASinglePointIsAShortLine) {
  Figure figure = one_line();
  figure.panels[0].curves[0].points = {{3, 2}};
  const auto lines = shapes_of<Path>(draw(figure), "line 0");
  ASSERT_EQ(lines[1].points.size(), 2u);
  EXPECT_EQ(lines[1].points[1].x, lines[1].points[0].x + 2);
  EXPECT_EQ(lines[1].points[1].y, lines[1].points[0].y);
}

TEST(Draw, ABandGoesForthAlongItsLowEndAndBack) {
  Figure figure = one_line();
  figure.panels[0].curves[0].band = {{0, 1}, {3, 4}};
  const auto bands = shapes_of<Path>(draw(figure), "band 0");
  ASSERT_EQ(bands.size(), 1u);
  EXPECT_TRUE(bands[0].is_area);
  ASSERT_EQ(bands[0].points.size(), 4u);
  const auto y = [](double value) { return 90 + (4.16 - value) / 4.16 * 230; };
  EXPECT_NEAR(bands[0].points[0].y, y(0), 1e-9);
  EXPECT_NEAR(bands[0].points[1].y, y(3), 1e-9);
  EXPECT_NEAR(bands[0].points[2].y, y(4), 1e-9);
  EXPECT_NEAR(bands[0].points[3].y, y(1), 1e-9);
  EXPECT_EQ(bands[0].points[1].x, 410);
  EXPECT_EQ(bands[0].points[2].x, 410);
}

TEST(Draw, TheFootnoteHasItsOwnLine) {
  const Scene scene = draw(one_line());
  EXPECT_EQ(scene.width, 434);
  EXPECT_EQ(scene.height, 390);
  const Label footnote = shapes_of<Label>(scene, "small faint").back();
  EXPECT_EQ(footnote.text, "note");
  EXPECT_EQ(footnote.at.x, 70);
  EXPECT_EQ(footnote.at.y, 378);
  Figure without = one_line();
  without.footnote = "";
  EXPECT_EQ(draw(without).height, 368);
}

TEST(Draw, LegendEntriesThatDoNotFitBeginALine) {
  Figure figure = one_line();
  // Each is 22 + 6 + 10 * 7.4 + 18 = 120 wide: three fit between 70 and 434.
  figure.legend.assign(4, std::string(10, 'x'));
  const auto labels = shapes_of<Label>(draw(figure), "");
  ASSERT_EQ(labels.size(), 4u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(labels[i].at.x, 98 + 120 * static_cast<double>(i));
    EXPECT_EQ(labels[i].at.y, 52);
  }
  EXPECT_EQ(labels[3].at.x, 98);
  EXPECT_EQ(labels[3].at.y, 72);
}

}  // namespace
}  // namespace sheaf::report
