#pragma once
// The labels of runs in legends.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace sheaf::report {

// The part of the folder's name after the last '_': "DADs2b16" for
// "logs/net_logs_DADs2b16/". The whole name if that part is empty.
std::string label_of(const std::filesystem::path& folder);

// One label per folder: `given` if it is not empty, else label_of. Folders with
// the same label get their names instead, and their whole paths if these are
// equal too. Throws UsageError if two labels are still equal, or if the number
// of given labels is not the number of folders.
std::vector<std::string> labels_of(
    std::span<const std::filesystem::path> folders,
    std::span<const std::string> given = {});

}  // namespace sheaf::report
