#pragma once

#include <filesystem>

namespace sheaf {

// Removes a file, or a folder with all that is in it; links are not followed.
// Nothing there is fine; IoError names what cannot be removed.
//
// In place of std::filesystem::remove_all(): some builds of libtorch bring a
// broken one along, which programs that link it call.
void remove_tree(const std::filesystem::path& path);
// Whether it is gone.
bool try_remove_tree(const std::filesystem::path& path) noexcept;

}  // namespace sheaf
