#pragma once
// Whole files in memory.

#include <filesystem>
#include <string>

namespace sheaf {

// All bytes of the file. IoError names it.
std::string read_file(const std::filesystem::path& path);

}  // namespace sheaf
