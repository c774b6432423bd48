#pragma once
// The data of pages as JSON: numbers, long series reduced to fewer points, and
// the layers of a run.

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "sheaf/report/runs/run.hpp"

namespace sheaf::report {

// A number with six digits; null if it is not finite.
nlohmann::json json_number(double value);
nlohmann::json json_numbers(const std::vector<double>& values);

// {"step": [...], "layers": [{name, route, reason, rows, in, out, bytes,
// exchange_ms, gradient_ms, rank: [...]}]}: the routes of routes.json, and
// means over the rows of kind "layers" in log.jsonl; `rank` has one number per
// step. null if the run has neither.
nlohmann::json page_layers_of(const Run& run, std::size_t max_points);

// The number of values to merge, so that at most `points` of `count` remain.
std::size_t thinning(std::size_t count, std::size_t points);

// The mean of each group of `every` values, ignoring NaN; NaN if a group has no
// other values.
std::vector<double> thinned(std::span<const double> values, std::size_t every);

}  // namespace sheaf::report
