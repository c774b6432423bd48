#include "sheaf/report/runs/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sheaf/base/error.hpp"
#include "sheaf/base/statistics.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::report {
namespace {

constexpr const char* kDefaultKey = "batch_duration";

const Rows& batches_of(const Run& run) { return run.log.rows("batch"); }

bool has_key(const Run& run, const std::string& key) {
  const Rows& rows = batches_of(run);
  if (!rows.has(key)) return false;
  const auto& column = rows.columns.at(key);
  return std::any_of(column.begin(), column.end(),
                     [](double value) { return !std::isnan(value); });
}

// Keys that give the position of a batch and are not worth plotting.
bool is_place(const std::string& key) {
  return key == "epoch" || key == "batch" || key == "step";
}

bool all_have(std::span<const Run> runs, const std::string& key) {
  return std::all_of(runs.begin(), runs.end(),
                     [&](const Run& run) { return has_key(run, key); });
}

std::vector<std::string> common_keys(std::span<const Run> runs) {
  std::vector<std::string> keys;
  for (const auto& [key, column] : batches_of(runs[0]).columns)
    if (!is_place(key) && all_have(runs, key)) keys.push_back(key);
  return keys;
}

std::vector<const Run*> runs_with(std::span<const Run> runs,
                                  const std::string& key) {
  std::vector<const Run*> found;
  for (const Run& run : runs)
    if (has_key(run, key)) found.push_back(&run);
  return found;
}

std::string runs_without(std::span<const Run> runs, const std::string& key) {
  std::vector<std::string> names;
  for (const Run& run : runs)
    if (!has_key(run, key))
      names.push_back(fmt::format("{} ({})", run.label, run.folder.string()));
  return join(names, ", ");
}

std::string advice(std::span<const Run> runs, const std::string& key) {
  const std::vector<std::string> common = common_keys(runs);
  if (common.empty()) return "; the runs have no key in common";
  const std::vector<std::string_view> views(common.begin(), common.end());
  return concat(did_you_mean(key, views), "; all runs have ",
                join(common, ", "));
}

// Reports all missing keys in one message.
void check_keys(std::span<const Run> runs, std::span<const std::string> keys) {
  std::vector<std::string> faults;
  for (const std::string& key : keys)
    if (runs_with(runs, key).size() < runs.size())
      faults.push_back(
          fmt::format("'{}' is missing in {}", key, runs_without(runs, key)));
  if (faults.empty()) return;
  throw UsageError(concat(join(faults, "; "), advice(runs, keys[0]),
                          "; choose among them, or pass --skip-missing"));
}

std::size_t batches_left(const Run& run, std::size_t warm_up) {
  const std::size_t count = batches_of(run).count;
  SHEAF_CHECK(count > warm_up, "the run ", run.label, " (", run.folder.string(),
              ") has only ", count, " batches, but the first ", warm_up,
              " are ignored; pass a smaller --warm-up or a longer run");
  return count - warm_up;
}

double mean_bytes(const Run& run, std::size_t from, std::size_t count) {
  const std::vector<double> bytes = batches_of(run).get("bytes_sent");
  return mean({bytes.data() + from, count});
}

std::string cut_note(std::span<const Run* const> runs, std::size_t warm_up,
                     std::size_t count) {
  std::vector<std::string> longer, shortest;
  for (const Run* run : runs) {
    const std::size_t left = batches_left(*run, warm_up);
    if (left > count)
      longer.push_back(fmt::format("{} ({})", run->label, left));
    else
      shortest.push_back(run->label);
  }
  if (longer.empty()) return "";
  return fmt::format(
      "only {} batches are compared, the number that {} {}; "
      "longer runs: {}",
      count, join(shortest, ", "), shortest.size() == 1 ? "has" : "have",
      join(longer, ", "));
}

Comparison compare_key(std::span<const Run> all, const std::string& key,
                       std::size_t warm_up) {
  const std::vector<const Run*> runs = runs_with(all, key);
  std::size_t count = std::numeric_limits<std::size_t>::max();
  for (const Run* run : runs)
    count = std::min(count, batches_left(*run, warm_up));
  Comparison result{.key = key, .warm_up = warm_up, .runs = {}, .notes = {}};
  for (const Run* run : runs) {
    const std::vector<double> column = batches_of(*run).get(key);
    const auto begin = column.begin() + static_cast<std::ptrdiff_t>(warm_up);
    result.runs.push_back(
        {.label = run->label,
         .values = {begin, begin + static_cast<std::ptrdiff_t>(count)},
         .bytes = mean_bytes(*run, warm_up, count)});
  }
  if (runs.size() < all.size())
    result.notes.push_back("omitted, because they lack the key: " +
                           runs_without(all, key));
  const std::string cut = cut_note(runs, warm_up, count);
  if (!cut.empty()) result.notes.push_back(cut);
  return result;
}

}  // namespace

std::vector<Comparison> compare(std::span<const Run> runs,
                                const CompareOptions& options) {
  SHEAF_CHECK(!runs.empty(), "there are no runs; pass at least one folder");
  std::vector<std::string> keys = options.keys;
  if (keys.empty()) keys.emplace_back(kDefaultKey);
  if (!options.skip_missing) check_keys(runs, keys);
  std::vector<Comparison> comparisons;
  for (const std::string& key : keys)
    if (!runs_with(runs, key).empty())
      comparisons.push_back(compare_key(runs, key, options.warm_up));
  SHEAF_CHECK(!comparisons.empty(), "no run has any of the keys ",
              join(keys, ", "), advice(runs, keys[0]));
  return comparisons;
}

std::string unit_of(const std::string& key) {
  if (key.ends_with("_duration") || key.ends_with("_busy") ||
      key.ends_with("_ms"))
    return "ms";
  return key.starts_with("bytes") ? "bytes" : "";
}

}  // namespace sheaf::report
