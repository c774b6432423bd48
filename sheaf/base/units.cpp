#include "sheaf/base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf {
namespace {

struct Quantity {
  double number;
  std::string unit;  // in lower case
};

// Parses a number >= 0 and an optional unit. Throws UsageError with `hint` if
// there is no such number.
Quantity parse_quantity(std::string_view text, std::string_view hint) {
  const std::string_view body = trim(text);
  double number = 0;
  const auto [end, error] = std::from_chars(
      body.data(), body.data() + body.size(), number, std::chars_format::fixed);
  SHEAF_CHECK(error == std::errc{} && number >= 0 && std::isfinite(number), "'",
              text, "' is not ", hint);
  std::string unit(trim({end, body.data() + body.size()}));
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return {number, std::move(unit)};
}

constexpr std::string_view kBytesHint =
    "a size in bytes; write it like 8, 64K, 1.5M, 128MiB or 1G (K = 1024)";
constexpr std::string_view kByteUnits = "kmgtp";

// Exponent of 1024 for a unit such as "k", "kb" or "kib"; -1 if unknown.
int power_of(std::string_view unit) {
  if (unit.empty() || unit == "b") return 0;
  const std::string_view rest = unit.substr(1);
  const bool is_unit = rest.empty() || rest == "b" || rest == "ib";
  const std::size_t index = kByteUnits.find(unit[0]);
  if (!is_unit || index == std::string_view::npos) return -1;
  return static_cast<int>(index) + 1;
}

constexpr std::string_view kDurationHint =
    "a duration; write it like 500ms, 30s, 5m, 1h, 20us or 100ns";

double nanoseconds_of(std::string_view unit) {
  struct Unit {
    std::string_view name;
    double nanoseconds;
  };
  constexpr std::array<Unit, 8> kUnits{{{"ns", 1},
                                        {"us", 1e3},
                                        {"µs", 1e3},
                                        {"ms", 1e6},
                                        {"s", 1e9},
                                        {"m", 60e9},
                                        {"min", 60e9},
                                        {"h", 3600e9}}};
  for (const Unit& known : kUnits)
    if (known.name == unit) return known.nanoseconds;
  return 0;
}

}  // namespace

std::uint64_t parse_bytes(std::string_view text) {
  const Quantity quantity = parse_quantity(text, kBytesHint);
  const int power = power_of(quantity.unit);
  SHEAF_CHECK(power >= 0, "'", text, "' is not ", kBytesHint);
  const double bytes = std::ldexp(quantity.number, 10 * power);
  SHEAF_CHECK(bytes == std::floor(bytes), "'", text,
              "' is not a whole number of bytes; leave out the fraction");
  SHEAF_CHECK(bytes <= 0x1p53, "'", text,
              "' is too large; sizes go up to 8192T");
  return static_cast<std::uint64_t>(bytes);
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto scaled = static_cast<double>(bytes) / 1024;
  std::size_t power = 0;
  // With two decimals, 1023.995 would be printed as 1024.
  for (; scaled >= 1023.995 && power + 1 < kByteUnits.size(); ++power)
    scaled /= 1024;
  std::string number = fmt::format("{:.2f}", scaled);
  number.erase(number.find_last_not_of('0') + 1);
  if (number.back() == '.') number.pop_back();
  return fmt::format("{} {}iB", number, "KMGTP"[power]);
}

std::string format_bytes_exactly(std::uint64_t bytes) {
  std::size_t power = 0;
  for (; bytes > 0 && bytes % 1024 == 0 && power < kByteUnits.size(); ++power)
    bytes /= 1024;
  return power == 0 ? fmt::format("{}", bytes)
                    : fmt::format("{}{}", bytes, "KMGTP"[power - 1]);
}

std::chrono::nanoseconds parse_duration(std::string_view text) {
  const Quantity quantity = parse_quantity(text, kDurationHint);
  if (quantity.number == 0 && quantity.unit.empty()) return {};
  const double factor = nanoseconds_of(quantity.unit);
  SHEAF_CHECK(factor > 0, "'", text, "' is not ", kDurationHint);
  const double nanoseconds = quantity.number * factor;
  SHEAF_CHECK(nanoseconds < 9e18, "'", text,
              "' is too long; durations go up to 290 years");
  return std::chrono::nanoseconds(std::llround(nanoseconds));
}

std::string format_duration(std::chrono::nanoseconds duration) {
  if (duration < std::chrono::nanoseconds::zero())
    return "-" + format_duration(-duration);
  const auto ns = static_cast<double>(duration.count());
  // Three significant digits. 999.5 would round to 1000, so it is printed in
  // the next larger unit.
  const auto with_unit = [](double value, std::string_view unit) {
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f} {}", value, decimals, unit);
  };
  if (duration.count() < 1000) return fmt::format("{} ns", duration.count());
  if (ns < 999.5e3) return with_unit(ns / 1e3, "us");
  if (ns < 999.5e6) return with_unit(ns / 1e6, "ms");
  if (ns < 59.95e9) return with_unit(ns / 1e9, "s");
  const auto seconds = std::llround(ns / 1e9);
  if (seconds < 3600)
    return fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
  const auto minutes = std::llround(ns / 60e9);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

}  // namespace sheaf
