#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/train/config/sweep_file.hpp"

namespace sheaf::train {
namespace {

constexpr std::size_t kMostJobs = 100'000;
constexpr std::size_t kMostValues = 10'000'000;        // of all jobs together
constexpr std::size_t kMostComparisons = 100'000'000;  // of jobs with skips
constexpr std::size_t kMostPatternLetters = 1000;

// One choice per axis, in the order of the axes.
using Point = std::vector<const Choice*>;

std::vector<Point> all_points(const std::vector<Axis>& axes) {
  std::vector<Point> points{{}};
  for (const Axis& axis : axes) {
    const std::size_t count = points.size() * axis.choices.size();
    SHEAF_CHECK(count <= kMostJobs && count * axes.size() <= kMostValues,
                "the sweep has more than ", kMostJobs, " combinations, or ",
                kMostValues, " values in them; remove some values");
    std::vector<Point> longer;
    longer.reserve(count);
    for (const Point& point : points)
      for (const Choice& choice : axis.choices) {
        longer.push_back(point);
        longer.back().push_back(&choice);
      }
    points = std::move(longer);
  }
  return points;
}

// The value of each axis and of each key at a point. For axes other than cases
// the label and the value are the same.
std::map<std::string, std::string> values_of(const std::vector<Axis>& axes,
                                             const Point& point) {
  std::map<std::string, std::string> values;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    values[axes[i].name] = point[i]->label;
    for (const Setting& one : point[i]->settings) values[one.key] = one.value;
  }
  return values;
}

bool agrees(const Skip& skip, const std::map<std::string, std::string>& point) {
  return std::all_of(
      skip.conditions.begin(), skip.conditions.end(),
      [&](const auto& condition) {
        const auto found = point.find(condition.key);
        return found != point.end() &&
               std::find(condition.values.begin(), condition.values.end(),
                         found->second) != condition.values.end();
      });
}

std::vector<std::string> names_in(const std::vector<Axis>& axes) {
  std::vector<std::string> names;
  std::set<std::string_view> known;
  const auto add = [&](const std::string& name) {
    if (known.insert(name).second) names.push_back(name);
  };
  for (const Axis& axis : axes) {
    add(axis.name);
    for (const Choice& choice : axis.choices)
      for (const Setting& one : choice.settings) add(one.key);
  }
  return names;
}

void check_skip_keys(const SweepFile& file) {
  const std::vector<std::string> names = names_in(file.axes);
  const std::vector<std::string_view> views(names.begin(), names.end());
  for (const Skip& skip : file.skips)
    for (const Skip::Condition& condition : skip.conditions)
      SHEAF_CHECK(
          std::find(names.begin(), names.end(), condition.key) != names.end(),
          condition.place, "skip has the key '", condition.key,
          "', which the jobs do not vary", did_you_mean(condition.key, views),
          "; the jobs vary ", join(names, ", "));
}

void check_skip_work(const SweepFile& file, std::size_t points) {
  std::size_t values = 0;
  for (const Skip& skip : file.skips)
    for (const Skip::Condition& condition : skip.conditions)
      values += condition.values.size();
  SHEAF_CHECK(values == 0 || points <= kMostComparisons / values, "skip has ",
              values, " values to compare with each of ", points,
              " jobs; remove some of its entries");
}

std::vector<Point> without_skipped(const SweepFile& file,
                                   std::vector<Point> points) {
  check_skip_keys(file);
  check_skip_work(file, points.size());
  std::vector<bool> is_used(file.skips.size());
  std::erase_if(points, [&](const Point& point) {
    const auto values = values_of(file.axes, point);
    for (std::size_t i = 0; i < file.skips.size(); ++i) {
      if (!agrees(file.skips[i], values)) continue;
      is_used[i] = true;
      return true;
    }
    return false;
  });
  for (std::size_t i = 0; i < file.skips.size(); ++i)
    SHEAF_CHECK(is_used[i], file.skips[i].conditions[0].place,
                "this entry of skip matches no job; compare its values with "
                "those of the jobs, or remove it");
  return points;
}

// The axis with this name, such as "ranks" or "optimizer.learning_rate", or
// with this suffix, such as "learning_rate" or "rate".
std::string axis_named(const SweepFile& file, const std::string& word) {
  std::vector<std::string> matches;
  std::vector<std::string_view> names;
  for (const Axis& axis : file.axes) {
    if (axis.name == word) return word;
    names.push_back(axis.name);
    if (axis.name.ends_with("." + word) || axis.name.ends_with("_" + word))
      matches.push_back(axis.name);
  }
  SHEAF_CHECK(
      matches.size() == 1, file.name_place, "name has {", word, "}",
      matches.empty() ? did_you_mean(word, names) : "",
      matches.empty() ? "; use one of " : ", which is ambiguous; use one of ",
      join(names, ", "));
  return matches[0];
}

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) ||
         std::string_view(".+=-").find(c) != std::string_view::npos;
}

// A value reduced to the characters allowed in a folder name. "_" is not
// allowed: plots label a run with the part of its name after the last "_".
std::string safe(const std::string& text) {
  std::string result;
  for (const char c : text)
    if (is_plain(c))
      result += c;
    else if (!result.empty() && result.back() != '-')
      result += '-';
  while (!result.empty() && result.back() == '-') result.pop_back();
  return result;
}

std::string default_pattern(const std::vector<Axis>& axes) {
  std::vector<std::string> parts;
  std::string last;  // the strategy is the most informative part
  for (const Axis& axis : axes) {
    const std::string part = concat("{", axis.name, "}");
    if (axis.choices.size() < 2) continue;
    if (axis.name == "strategy")
      last = part;
    else
      parts.push_back(part);
  }
  const bool has_cases = axes.back().name == "case";
  if (!last.empty()) parts.insert(parts.end() - (has_cases ? 1 : 0), last);
  return parts.empty() ? "job" : join(parts, "_");
}

std::string expand(const SweepFile& file, const std::string& pattern,
                   const std::map<std::string, std::string>& values) {
  std::string name;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '{') {
      const char c = pattern[at];
      name += c == '_' || is_plain(c) ? c : '-';
      continue;
    }
    const std::size_t end = pattern.find('}', at);
    SHEAF_CHECK(end != pattern.npos, file.name_place, "name '", pattern,
                "' has a { without }; write {ranks}_{global_batch}");
    const std::string axis =
        axis_named(file, pattern.substr(at + 1, end - at - 1));
    name += safe(values.at(axis));
    at = end;
  }
  return name;
}

void check_name(const SweepFile& file, const std::string& name) {
  SHEAF_CHECK(!name.empty() && name[0] != '.' && name != "replaced",
              file.name_place, "invalid job name '", name,
              "'; begin `name` with a letter, such as job-{ranks}");
}

}  // namespace

std::vector<std::string> GridJob::overrides() const {
  std::vector<std::string> result;
  for (const Setting& one : settings)
    result.push_back(concat(one.key, "=", one.value));
  return result;
}

std::vector<GridJob> make_grid(const SweepFile& file) {
  const std::string pattern =
      file.name.empty() ? default_pattern(file.axes) : file.name;
  SHEAF_CHECK(file.name.size() <= kMostPatternLetters, file.name_place,
              "name has more than ", kMostPatternLetters, " characters");
  std::vector<GridJob> jobs;
  std::map<std::string, int> seen;
  for (const Point& point : without_skipped(file, all_points(file.axes))) {
    const auto values = values_of(file.axes, point);
    GridJob job{expand(file, pattern, values), 1, {}};
    check_name(file, job.name);
    SHEAF_CHECK(++seen[job.name] == 1, file.name_place, "name '", pattern,
                "' gives two jobs the folder '", job.name,
                "'; include every axis that varies, such as ",
                default_pattern(file.axes));
    job.ranks = std::stoi(values.at("ranks"));
    for (const Choice* choice : point)
      job.settings.insert(job.settings.end(), choice->settings.begin(),
                          choice->settings.end());
    jobs.push_back(std::move(job));
  }
  SHEAF_CHECK(!jobs.empty(), file.skips.back().conditions[0].place,
              "skip excludes all jobs; remove some of its entries");
  return jobs;
}

}  // namespace sheaf::train
