#pragma once
// Files that must survive a crash, and what is read back from them. All
// functions throw an IoError that names the path.

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

#include "sheaf/base/error.hpp"

namespace sheaf::train {

// The file may be intact, but this process cannot read it now: too many open
// files, no permission, an unreachable server.
class AccessError : public IoError {
 public:
  using IoError::IoError;
};

// Waits until an already written file is on disk.
void sync_file(const std::filesystem::path& file);

// Reads a whole regular file of at most `most` bytes.
std::string read_whole(const std::filesystem::path& file,
                       std::uint64_t most = std::uint64_t{1} << 30);

// CRC-32C (Castagnoli) of the bytes that follow those with the checksum
// `before`: the checksum of checkpoints and of TensorBoard event files.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0) noexcept;

struct FileSummary {
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;  // CRC-32C
};
// Reads the file in blocks, to its end or until it has more than `most` bytes.
FileSummary summarize(
    const std::filesystem::path& file,
    std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

// Makes the symbolic link `name` point to `target`, atomically. False if the
// file system has no symbolic links.
bool replace_link(const std::filesystem::path& target,
                  const std::filesystem::path& name);

// Renames a file or folder. An existing file or empty folder `to` is replaced.
void rename_path(const std::filesystem::path& from,
                 const std::filesystem::path& to);
// Exchanges two names atomically. False if the file system cannot.
bool exchange_names(const std::filesystem::path& one,
                    const std::filesystem::path& other);

// Runs `body` and converts filesystem_error to IoError.
template <class Body>
void with_io_errors(const Body& body) {
  try {
    body();
  } catch (const std::filesystem::filesystem_error& error) {
    throw IoError(error.what());
  }
}

}  // namespace sheaf::train
