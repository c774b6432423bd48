#pragma once
// A YAML file as a list of settings.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace sheaf::report {

// The values in the order of the file, each with the keys of the maps around
// it, joined by points: "optimizer.name". A list, and an empty map, is one
// value, written in one line. IoError names file and line.
std::vector<std::pair<std::string, std::string>> read_flat_yaml(
    const std::filesystem::path& file);

}  // namespace sheaf::report
