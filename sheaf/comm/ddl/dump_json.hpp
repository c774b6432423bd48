#pragma once
// The part of a dump that is not elements, as JSON.

#include <nlohmann/json_fwd.hpp>

#include "sheaf/comm/ddl/dump.hpp"

namespace sheaf::comm {

nlohmann::json dump_header(const Dump& dump);
// Throws nlohmann::json::exception, or UsageError for an unknown name, when
// something is missing or of the wrong type.
Dump dump_of(const nlohmann::json& header);

}  // namespace sheaf::comm
