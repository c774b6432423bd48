#pragma once
// Whether a run's calls would let it survive a loss of power, after which only
// what was synced is certain.

#include <vector>

#include "tests/crash/injector.hpp"

namespace sheaf::crash {

// Throws Lost if a file is renamed before its content is on disk, if a
// checkpoint gets its name before its files, their names and the log are on
// disk, or if a file of an old checkpoint is removed before the names of the
// checkpoints are.
void check_sync_order(const std::vector<Call>& calls);

}  // namespace sheaf::crash
