#include "sheaf/base/error_text.hpp"

#include <string_view>

#include "sheaf/base/text.hpp"

namespace sheaf {
namespace {

// Removes a prefix such as "[enforce fail at alloc_cpu.cpp:66] . ".
std::string_view without_place(std::string_view text) {
  if (text.rfind("[enforce fail at ", 0) != 0) return text;
  const std::size_t end = text.find(']');
  if (end == text.npos) return text;
  const std::size_t rest = text.find_first_not_of(" .", end + 1);
  return rest == text.npos ? text : text.substr(rest);
}

}  // namespace

std::string one_line(const std::exception& error) {
  std::string_view text = error.what();
  for (const char* stack : {"\nException raised from ", "\nframe #"})
    text = text.substr(0, text.find(stack));
  std::string line;
  for (const auto part : split(without_place(trim(text)), '\n')) {
    if (trim(part).empty()) continue;
    if (!line.empty()) line += ' ';
    line += trim(part);
  }
  return line;
}

}  // namespace sheaf
