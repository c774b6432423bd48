#pragma once
// What a page tells of a run's layers.

#include <nlohmann/json_fwd.hpp>

#include "sheaf/report/runs/run.hpp"

namespace sheaf::report {

// A number with six digits; null for one that is not finite.
nlohmann::json json_number(double value);
nlohmann::json json_numbers(const std::vector<double>& values);

// {"step": [...], "layers": [{name, route, reason, rows, in, out, bytes,
// exchange_ms, gradient_ms, rank: [...]}]}: what routes.json says, and means
// over the rows of kind "layers"; `rank` has a number for each step. null when
// the run has neither.
nlohmann::json page_layers_of(const Run& run, std::size_t max_points);

}  // namespace sheaf::report
