#include <fmt/format.h>

#include <string_view>

#include "sheaf/report/draw/scene.hpp"

namespace sheaf::report {
namespace {

// Colors of similar lightness that remain distinguishable with red-green color
// blindness.
constexpr std::string_view kLight[kSeriesColors] = {
    "#0a62c9", "#c2410c", "#0f766e", "#a21caf",
    "#a16207", "#4d7c0f", "#be123c", "#475569"};
constexpr std::string_view kDark[kSeriesColors] = {
    "#58a6ff", "#fb923c", "#2dd4bf", "#e879f9",
    "#facc15", "#a3e635", "#fb7185", "#94a3b8"};

struct Ground {
  std::string_view back, text, faint, grid, axis;
};
constexpr Ground kLightGround{"#ffffff", "#1f2328", "#59636e", "#e4e8ec",
                              "#8c959f"};
constexpr Ground kDarkGround{"#0d1117", "#e6edf3", "#9198a1", "#262c34",
                             "#656c76"};

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    switch (letter) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        // XML does not allow control characters.
        if (static_cast<unsigned char>(letter) >= 0x20) safe += letter;
    }
  }
  return safe;
}

std::string colors(const Ground& ground, const std::string_view* series) {
  std::string css = fmt::format(
      "text {{ fill: {} }} .faint {{ fill: {} }} .ground {{ fill: {} }}\n"
      ".grid {{ stroke: {} }} .axis {{ stroke: {} }}\n",
      ground.text, ground.faint, ground.back, ground.grid, ground.axis);
  for (int i = 0; i < kSeriesColors; ++i)
    css +=
        fmt::format(".line.s{0} {{ stroke: {1} }} .band.s{0} {{ fill: {1} }}\n",
                    i, series[i]);
  return css;
}

std::string style_sheet(const SvgOptions& options) {
  std::string css =
      "text { font: 13px system-ui, 'DejaVu Sans', sans-serif }\n"
      ".title { font-size: 16px; font-weight: 600 }\n"
      ".panel { font-weight: 600 } .small { font-size: 12px }\n"
      ".line { fill: none; stroke-width: 1.8; stroke-linejoin: round }\n"
      ".again { stroke-dasharray: 6 3 }\n"
      ".band { fill-opacity: 0.15 } .grid, .axis { fill: none }\n" +
      colors(kLightGround, kLight);
  if (options.has_dark)
    css += "@media (prefers-color-scheme: dark) {\n" +
           colors(kDarkGround, kDark) + "}\n";
  return css;
}

// "line 9" has the color of "line 1", dashed.
std::string classes_of(const std::string& style) {
  const std::size_t space = style.find(' ');
  if (space == std::string::npos) return style;
  const int series = std::stoi(style.substr(space + 1));
  return fmt::format("{} s{}{}", style.substr(0, space), series % kSeriesColors,
                     series < kSeriesColors ? "" : " again");
}

std::string element_of(const Path& path) {
  std::string d;
  for (const Point& point : path.points)
    d +=
        fmt::format("{}{:.1f} {:.1f}", d.empty() ? "M" : "L", point.x, point.y);
  if (path.is_area) d += "Z";
  return fmt::format("<path class=\"{}\" d=\"{}\"/>\n", classes_of(path.style),
                     d);
}

std::string element_of(const Label& label) {
  constexpr std::string_view kAnchors[] = {"start", "middle", "end"};
  const std::string turn =
      label.is_upright ? fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"",
                                     label.at.x, label.at.y)
                       : "";
  return fmt::format(
      "<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}"
      "</text>\n",
      label.style, label.at.x, label.at.y,
      kAnchors[static_cast<int>(label.anchor)], turn, escaped(label.text));
}

}  // namespace

std::string svg_of(const Scene& scene, const SvgOptions& options) {
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
      "width=\"{0}\" height=\"{1}\" role=\"img\">\n<title>{2}</title>\n"
      "<style>\n{3}</style>\n"
      "<rect class=\"ground\" width=\"{0}\" height=\"{1}\"/>\n",
      scene.width, scene.height, escaped(scene.title), style_sheet(options));
  for (const auto& shape : scene.shapes)
    svg += std::visit([](const auto& one) { return element_of(one); }, shape);
  return svg + "</svg>\n";
}

}  // namespace sheaf::report
