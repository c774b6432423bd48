#include "coverage.hpp"

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <vector>

#include "plain/network.hpp"

namespace differential {
namespace {

// Keys whose values are sizes or seeds, which do not show what is tested.
const std::set<std::string> kSizes{
    "seed", "width",  "time",   "height", "channels", "depth",
    "out",  "kernel", "ranks",  "rank",   "words",    "power_rank",
    "size", "by",     "factor", "stride", "groups",   "penalty"};

void add_rows(const Case& one, const Item& step, std::set<std::string>& tags) {
  std::set<std::int64_t> rows;
  for (int unit = 0; unit < unit_count(one); ++unit)
    rows.insert(rows_of(step, unit));
  if (rows.count(0)) tags.insert("rows:empty");
  if (rows.count(1)) tags.insert("rows:one");
  if (rows.size() > 1) tags.insert("rows:uneven");
}

void add_sizes(const Case& one, std::set<std::string>& tags) {
  for (const Shape& shape : shapes_of(one))
    if (shape.elements() * 8 >= 256 << 10) tags.insert("large");
  for (const Item& block : one.blocks)
    if (block.kind == "linear" && block.get("out") >= 190) tags.insert("large");
}

// Appends the value, counted from 1, for settings that are a choice.
std::string named(const std::string& key, std::int64_t value) {
  static const std::set<std::string> kChoices{
      "exchange", "overlap",  "optimizer", "input",
      "way",      "function", "cell",      "zeros"};
  return kChoices.count(key) ? key + "=" + std::to_string(value) : key;
}

// Removes numbers and text in parentheses, such as cuts, so that equal reasons
// are counted together.
std::string without_numbers(std::string text) {
  text = text.substr(0, text.find('\n'));
  std::string out;
  int depth = 0;
  for (const char c : text) {
    if (c == ')') --depth;
    const bool is_digit = std::isdigit(static_cast<unsigned char>(c));
    if (depth <= 0 && (!is_digit || out.empty() || out.back() != '#'))
      out += is_digit ? '#' : c;
    if (c == '(') ++depth;
  }
  return out.substr(0, 150);
}

}  // namespace

std::set<std::string> features_of(const Case& one) {
  std::set<std::string> tags{"strategy:" + one.setting.kind,
                             "ranks:" + std::to_string(one.ranks())};
  for (const auto& [key, value] : one.setting.values)
    if (!kSizes.count(key) && key.find("ends_early") != 0)
      tags.insert(named(key, value));
  for (const Item& block : one.blocks) {
    tags.insert("block:" + block.kind);
    for (const auto& [key, value] : block.values)
      if (!kSizes.count(key)) tags.insert(named(key, value));
  }
  for (std::size_t i = 0; i < one.steps.size(); ++i) {
    add_rows(one, one.steps[i], tags);
    for (const auto& [key, value] : one.steps[i].values)
      if (key.find("rows") != 0) tags.insert("step:" + key);
  }
  if (one.steps.size() > 1) tags.insert("step:second");
  if (one.setting.kind == "spatial")
    tags.insert("axes:" + std::to_string(input_shape(one).sizes.size() - 1));
  add_sizes(one, tags);
  return tags;
}

void Coverage::add(const Case& one) {
  ++cases_;
  const auto tags = features_of(one);
  for (auto a = tags.begin(); a != tags.end(); ++a) {
    ++features_[*a];
    for (auto b = std::next(a); b != tags.end(); ++b) ++pairs_[{*a, *b}];
  }
}

void Coverage::add_error(const Case& one, const std::string& reason) {
  Reason& found = reasons_[without_numbers(reason)];
  if (found.count++ == 0) found.example = text_of(one);
}

void Coverage::print_features(std::ostream& out) const {
  for (const auto& [name, count] : features_)
    out << std::setw(7) << count << "  " << name << '\n';
}

void Coverage::print_pairs(std::ostream& out) const {
  for (const auto& [pair, count] : pairs_)
    out << std::setw(7) << count << "  " << pair.first << " + " << pair.second
        << '\n';
  std::size_t never = 0;
  std::string list;
  for (auto a = features_.begin(); a != features_.end(); ++a)
    for (auto b = std::next(a); b != features_.end(); ++b)
      if (!pairs_.count({a->first, b->first})) {
        ++never;
        list += "  " + a->first + " + " + b->first + '\n';
      }
  out << never << " pairs were never generated:\n" << list;
}

void Coverage::print_errors(std::ostream& out) const {
  for (const auto& [reason, found] : reasons_)
    out << std::setw(7) << found.count << "  " << reason << "\n         e.g. "
        << found.example << '\n';
}

}  // namespace differential
