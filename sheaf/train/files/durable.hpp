#pragma once
// Durable file operations: a file or folder is either completely on disk or
// absent. All functions throw an IoError that names the path.

#include <filesystem>
#include <string>
#include <string_view>

#include "sheaf/base/error.hpp"

namespace sheaf::train {

// Writes the file and waits until it is on disk.
void write_durably(const std::filesystem::path& file, std::string_view bytes);

// Waits until an already written file is on disk.
void sync_file(const std::filesystem::path& file);
// Waits until the folder's entries are on disk.
void sync_folder(const std::filesystem::path& folder);

// Reads the whole file.
std::string read_whole(const std::filesystem::path& file);

// Renames the folder `draft` to `place`, replacing the old contents. If `place`
// existed before, a complete version is visible under that name at all times
// (on file systems that can exchange names atomically).
void replace_folder(const std::filesystem::path& draft,
                    const std::filesystem::path& place);

// Makes the symbolic link `name` point to `target`, atomically.
void replace_link(const std::filesystem::path& target,
                  const std::filesystem::path& name);

// Runs `body` and converts filesystem_error to IoError.
template <class Body>
void with_io_errors(const Body& body) {
  try {
    body();
  } catch (const std::filesystem::filesystem_error& error) {
    throw IoError(concat("checkpoint: ", error.what()));
  }
}

}  // namespace sheaf::train
