#pragma once

#include <filesystem>

namespace sheaf {

// Removes a file, or a folder and its contents. Symbolic links are not
// followed. Does nothing if `path` does not exist. Throws IoError, which names
// `path`, if it cannot be removed.
//
// Used instead of std::filesystem::remove_all(): some builds of libtorch
// contain a broken version, which overrides the one of the standard library.
void remove_tree(const std::filesystem::path& path);
// Same, but returns whether `path` no longer exists instead of throwing.
bool try_remove_tree(const std::filesystem::path& path) noexcept;

}  // namespace sheaf
