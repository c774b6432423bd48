#pragma once
// Reads whole files into memory.

#include <filesystem>
#include <string>

namespace sheaf {

// Returns all bytes of the file. Throws IoError, which names the file.
std::string read_file(const std::filesystem::path& path);

}  // namespace sheaf
