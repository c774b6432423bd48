#include "plain/case.hpp"

#include <algorithm>
#include <sstream>

namespace differential {
namespace {

void print(std::ostream& out, const Item& item) {
  out << item.kind;
  for (const auto& [key, value] : item.values)
    out << ' ' << key << '=' << value;
}

Item parse_item(const std::string& text) {
  std::istringstream in(text);
  Item item;
  in >> item.kind;
  for (std::string word; in >> word;) {
    const std::size_t at = word.find('=');
    if (at == std::string::npos) throw BadCase("no value in '" + word + "'");
    item.set(word.substr(0, at), std::stoll(word.substr(at + 1)));
  }
  return item;
}

}  // namespace

std::int64_t Item::get(const std::string& key, std::int64_t otherwise) const {
  const auto found = values.find(key);
  return found == values.end() ? otherwise : found->second;
}

Item& Item::set(const std::string& key, std::int64_t value) {
  if (value == 0)
    values.erase(key);
  else
    values[key] = value;
  return *this;
}

std::string text_of(const Case& one) {
  std::ostringstream out;
  print(out, one.setting);
  for (const Item& block : one.blocks) print(out << "; ", block);
  for (const Item& step : one.steps) print(out << "; ", step);
  return out.str();
}

Case parse_case(const std::string& text) {
  Case one;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ';');) {
    Item item = parse_item(part);
    if (item.kind.empty()) throw BadCase("an empty part in '" + text + "'");
    if (one.setting.kind.empty())
      one.setting = std::move(item);
    else if (item.kind == "step")
      one.steps.push_back(std::move(item));
    else
      one.blocks.push_back(std::move(item));
  }
  if (one.setting.kind.empty()) throw BadCase("the text is empty");
  return one;
}

int grid_size(const Case& one) {
  std::int64_t ranks = 1;
  for (const char* key : {"grid0", "grid1", "grid2"})
    ranks *= one.setting.get(key, 1);
  return static_cast<int>(ranks);
}

int unit_count(const Case& one) { return one.ranks() / grid_size(one); }

std::int64_t rows_of(const Item& step, int unit) {
  return step.get("rows" + std::to_string(unit));
}

std::int64_t rows_of_all(const Case& one, const Item& step) {
  std::int64_t rows = 0;
  for (int unit = 0; unit < unit_count(one); ++unit)
    rows += rows_of(step, unit);
  return rows;
}

int pass_count(const Item& step) {
  return static_cast<int>(step.get("no_sync") + 1 + step.get("more_passes"));
}

std::size_t steps_of(const Case& one, int unit) {
  if (!one.setting.has("join")) return one.steps.size();
  const auto fewer = static_cast<std::size_t>(
      one.setting.get("ends_early" + std::to_string(unit)));
  return one.steps.size() - std::min(one.steps.size(), fewer);
}

}  // namespace differential
