#pragma once
// Files and folders that are on the disk, whole, or not there at all.

#include <filesystem>
#include <string>
#include <string_view>

#include "sheaf/base/error.hpp"

namespace sheaf::train {

// Writes the file and waits until it is on the disk. IoError names it.
void write_durably(const std::filesystem::path& file, std::string_view bytes);

// Waits until a file that is written already is on the disk.
void sync_file(const std::filesystem::path& file);
// Waits until the names in the folder are on the disk.
void sync_folder(const std::filesystem::path& folder);

// The whole file; IoError names it.
std::string read_whole(const std::filesystem::path& file);

// The folder `draft` becomes `place`, and what was there before is gone. At
// every moment one of both is whole under the name `place`, if one ever was.
void replace_folder(const std::filesystem::path& draft,
                    const std::filesystem::path& place);

// The link `name` points to `target` afterwards; there is no moment without.
void replace_link(const std::filesystem::path& target,
                  const std::filesystem::path& name);

// An IoError in place of the library's own kind.
template <class Body>
void with_io_errors(const Body& body) {
  try {
    body();
  } catch (const std::filesystem::filesystem_error& error) {
    throw IoError(concat("checkpoint: ", error.what()));
  }
}

}  // namespace sheaf::train
