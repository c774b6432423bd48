#pragma once

#include <CLI/CLI.hpp>

namespace sheaf::cli {

// sheaf plan compare: compares the predicted step with a measured one.
void add_compare_command(CLI::App& app);

}  // namespace sheaf::cli
