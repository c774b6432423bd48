#pragma once
// The header of a dump as JSON: everything except the elements.

#include <nlohmann/json_fwd.hpp>

#include "sheaf/comm/ddl/dump.hpp"

namespace sheaf::comm {

nlohmann::json dump_header(const Dump& dump);
// Throws nlohmann::json::exception if a value is missing or has the wrong type,
// and UsageError for an unknown name.
Dump dump_of(const nlohmann::json& header);

}  // namespace sheaf::comm
