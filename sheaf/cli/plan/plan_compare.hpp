#pragma once

#include <CLI/CLI.hpp>

namespace sheaf::cli {

// sheaf plan compare: what was predicted against what a run then took.
void add_compare_command(CLI::App& app);

}  // namespace sheaf::cli
