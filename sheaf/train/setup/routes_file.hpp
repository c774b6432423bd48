#pragma once
// dad_plan.json: the routes that strategy auto has chosen, so that another run
// can reuse them (dad.plan).

#include <string>

#include "sheaf/parallel/dad/dad_plan.hpp"

namespace sheaf::train {

std::string routes_text(const parallel::FixedRoutes& routes);
// Throws a UsageError that names `file` if the text is not in the format of
// routes_text().
parallel::FixedRoutes parse_routes(const std::string& text,
                                   const std::string& file);

}  // namespace sheaf::train
