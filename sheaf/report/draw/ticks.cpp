#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "sheaf/report/draw/figure.hpp"

namespace sheaf::report {
namespace {

// The next larger number of the form 1, 2 or 5 times a power of ten.
double round_step(double wanted) {
  const double power = std::pow(10, std::floor(std::log10(wanted)));
  for (const double digit : {1.0, 2.0, 5.0})
    if (digit * power >= wanted * (1 - 1e-9)) return digit * power;
  return 10 * power;
}

struct Suffix {
  double size;
  std::string_view letter;
};

Suffix suffix_of(double value, double step) {
  // Ticks such as 9500 and 10000 should have the same suffix.
  const double size = std::max(std::abs(value), step);
  if (size >= 1e9) return {1e9, "G"};
  if (size >= 1e6) return {1e6, "M"};
  return size >= 1e4 || step >= 1e3 ? Suffix{1e3, "k"} : Suffix{1, ""};
}

}  // namespace

std::vector<double> ticks(double low, double high, int count) {
  const double step = round_step((high - low) / count);
  std::vector<double> marks;
  const double first = std::ceil(low / step - 1e-9);
  // The range may be smaller than what the numbers can resolve.
  for (int i = 0; i <= 2 * count; ++i) {
    const double mark = (first + i) * step;
    if (!(mark <= high + 1e-9 * step)) break;
    if (marks.empty() || mark > marks.back()) marks.push_back(mark);
  }
  return marks;
}

std::string tick_text(double value, double step) {
  if (value == 0) return "0";
  const Suffix suffix = suffix_of(value, step);
  const double digits = -std::floor(std::log10(step / suffix.size) + 1e-9);
  return fmt::format("{:.{}f}{}", value / suffix.size,
                     static_cast<int>(std::max(digits, 0.0)), suffix.letter);
}

}  // namespace sheaf::report
