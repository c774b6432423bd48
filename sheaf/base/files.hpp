#pragma once
// Whole files and folders: reading, writing atomically, removing, temporary
// ones.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf {

// Replaces the content of `path` by `content`. Concurrent readers, and readers
// after a crash or a full disk, see either the old or the new content; on
// return the new one is on disk. The file is written under a temporary name in
// the same folder, synced and renamed. Devices and pipes are written to
// instead. Throws IoError, which names the file. Any thread may call it.
void write_file_atomically(const std::filesystem::path& path,
                           std::string_view content);
// Same, for content in several pieces, which are concatenated.
void write_pieces_atomically(const std::filesystem::path& path,
                             std::span<const std::string_view> pieces);

// A random name in the same folder: "<path>.tmp.0123456789abcdef". The caller
// must create the file exclusively.
std::string temporary_name(const std::filesystem::path& path);
// Whether the path has such a name.
bool is_temporary(const std::filesystem::path& path);

// Waits until the folder's entries (names, not contents) are on disk. File
// systems without this feature are accepted. Throws IoError.
void sync_folder(const std::filesystem::path& folder);
// Creates the folder and its parents, unless they exist, and syncs the folders
// that contain them. Throws IoError, which names the folder.
void create_folders(const std::filesystem::path& path);

// The files and folders in a folder, in byte order of their names. Throws
// IoError, which names the folder.
std::vector<std::filesystem::path> entries_of(
    const std::filesystem::path& folder);

// Returns all bytes of the file. Throws IoError, which names the file, also if
// it has more than `most_bytes`, as a device such as /dev/zero has.
std::string read_file(const std::filesystem::path& path,
                      std::size_t most_bytes = std::string::npos);
// For files that people write.
inline constexpr std::size_t kMostTextBytes = std::size_t{64} << 20;

// Removes a file, or a folder and its contents. Symbolic links are not
// followed. Does nothing if `path` does not exist. Throws IoError, which names
// `path`, if it cannot be removed.
//
// Used instead of std::filesystem::remove_all(): some builds of libtorch
// contain a broken version, which overrides the one of the standard library.
void remove_tree(const std::filesystem::path& path);
// Same, but returns whether `path` no longer exists instead of throwing.
bool try_remove_tree(const std::filesystem::path& path) noexcept;

// A new folder for temporary files, which only this user may access. The
// destructor removes it with its contents.
class WorkFolder {
 public:
  // In `parent`, with a name that begins with `prefix`. Throws IoError.
  WorkFolder(const std::filesystem::path& parent, std::string_view prefix);
  ~WorkFolder() { try_remove_tree(path_); }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace sheaf
