#include "sheaf/plan/trace/trace_numbers.hpp"

#include <charconv>
#include <cmath>

namespace sheaf::plan {
namespace {

using Number = std::optional<std::int64_t>;

constexpr std::int64_t kLargestMicroseconds = 100'000'000'000'000'000;

// All of `text` as T.
template <class T>
std::optional<T> parsed_as(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || at != end) return std::nullopt;
  return value;
}

// The first three decimals: nanoseconds of a microsecond. Consumes all.
Number fraction_of(std::string_view decimals) {
  std::int64_t ns = 0;
  std::int64_t unit = 100;
  for (const char digit : decimals) {
    if (digit < '0' || digit > '9') return std::nullopt;
    ns += (digit - '0') * unit;
    unit /= 10;
  }
  return ns;
}

Number within_limit(std::int64_t whole, std::int64_t fraction) {
  const bool is_ns = whole >= kLargestMicroseconds;
  if (whole > (is_ns ? kLatestNs : kLatestNs / 1000)) return std::nullopt;
  return is_ns ? whole : whole * 1000 + fraction;
}

// A double cannot represent nanoseconds since 1970, but with an exponent no
// writer means them exactly.
Number from_exponent(std::string_view text) {
  const auto value = parsed_as<double>(text);
  if (!value || *value > static_cast<double>(kLatestNs)) return std::nullopt;
  const double ns = *value >= static_cast<double>(kLargestMicroseconds)
                        ? *value
                        : *value * 1000;
  if (ns > static_cast<double>(kLatestNs)) return std::nullopt;
  return static_cast<std::int64_t>(ns);
}

Number natural_nanoseconds(std::string_view text) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  if (text.find_first_of("eE") != text.npos) return from_exponent(text);
  const std::size_t point = text.find('.');
  const auto whole = parsed_as<std::int64_t>(text.substr(0, point));
  const auto fraction =
      fraction_of(point == text.npos ? "" : text.substr(point + 1));
  if (!whole || !fraction) return std::nullopt;
  return within_limit(*whole, *fraction);
}

}  // namespace

Number parse_nanoseconds(std::string_view text) {
  if (!text.starts_with('-')) return natural_nanoseconds(text);
  const Number ns = natural_nanoseconds(text.substr(1));
  return ns ? -*ns : ns;
}

Number parse_integer(std::string_view text) {
  if (const auto whole = parsed_as<std::int64_t>(text)) return whole;
  constexpr double kExact = 0x1p53;
  const auto value = parsed_as<double>(text);
  if (!value || !(std::abs(*value) <= kExact) || *value != std::floor(*value))
    return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

}  // namespace sheaf::plan
