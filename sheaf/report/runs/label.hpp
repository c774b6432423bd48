#pragma once
// The names of runs in legends.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace sheaf::report {

// The last part of the folder's name, parted by '_': "DADs2b16" of
// "logs/net_logs_DADs2b16/". The whole name where that part is empty.
std::string label_of(const std::filesystem::path& folder);

// One label per folder: `given` where there are any (UsageError unless there
// is one for each), else by label_of. Folders that would get the same label get
// their names instead, and their whole paths where these are the same too.
// UsageError when two still are equal.
std::vector<std::string> labels_of(
    std::span<const std::filesystem::path> folders,
    std::span<const std::string> given = {});

}  // namespace sheaf::report
