#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sheaf/base/table.hpp"

namespace sheaf {
namespace {

template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

std::string quoted_if_needed(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

bool Cell::is_empty() const noexcept {
  const auto* number = std::get_if<double>(&value_);
  return std::holds_alternative<std::monostate>(value_) ||
         (number && !std::isfinite(*number));
}

std::string Cell::as_text(int decimals) const {
  if (is_empty()) return "-";
  return std::visit(
      Overloaded{[](std::monostate) { return std::string("-"); },
                 [](const std::string& text) { return text; },
                 [](bool truth) { return std::string(truth ? "yes" : "no"); },
                 [=](double number) {
                   return fmt::format("{:.{}f}", number, decimals);
                 },
                 [](auto number) { return fmt::format("{}", number); }},
      value_);
}

std::string Cell::as_field() const {
  if (is_empty()) return "";
  if (const auto* text = std::get_if<std::string>(&value_))
    return quoted_if_needed(*text);
  return as_json();
}

std::string Cell::as_json() const {
  if (is_empty()) return "null";
  return std::visit(
      Overloaded{[](std::monostate) { return std::string("null"); },
                 [](const auto& value) {
                   // Replace bytes that are not UTF-8 instead of throwing.
                   return nlohmann::json(value).dump(
                       -1, ' ', false,
                       nlohmann::json::error_handler_t::replace);
                 }},
      value_);
}

}  // namespace sheaf
