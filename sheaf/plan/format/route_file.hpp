#pragma once
// dad_plan.json: the routes that strategy auto has chosen, as text.

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf::plan {

struct RouteFile {
  std::map<std::string, std::string> by_parameter;  // names of routes
  bool skips_zeros = false;
};

// Throws a UsageError that names `file`, and the key, if the text is not in
// this format or a route is not among `known`.
RouteFile parse_route_file(const std::string& text, const std::string& file,
                           const std::vector<std::string_view>& known);
std::string text_of(const RouteFile& routes);

}  // namespace sheaf::plan
