#pragma once
// dad_plan.json: the routes that auto has decided on, so that another run can
// repeat them (dad.plan).

#include <string>

#include "sheaf/parallel/dad/dad_plan.hpp"

namespace sheaf::train {

std::string routes_text(const parallel::FixedRoutes& routes);
// UsageError names the file where the text is not what routes_text() gives.
parallel::FixedRoutes parse_routes(const std::string& text,
                                   const std::string& file);

}  // namespace sheaf::train
