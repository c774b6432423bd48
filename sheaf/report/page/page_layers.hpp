#pragma once
// The data of a run's layers in the report.

#include <nlohmann/json_fwd.hpp>

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

}  // namespace sheaf::report
