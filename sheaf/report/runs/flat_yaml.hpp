#pragma once
// Reads a YAML file as a flat list of settings.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace sheaf::report {

// The values in the order of the file, with dotted keys such as
// "optimizer.name". A list or an empty map is one value, written on one line.
// Throws IoError with the file and the line.
std::vector<std::pair<std::string, std::string>> read_flat_yaml(
    const std::filesystem::path& file);

}  // namespace sheaf::report
