#include "sheaf/base/atomic_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "sheaf/base/error.hpp"

namespace sheaf {
namespace {

// The temporary file is in the folder of `path`, since a rename cannot cross
// file systems. Each call returns a different name, so writers do not collide.
std::string temporary_name(const std::filesystem::path& path) {
  static std::atomic<int> counter{0};
  return concat(path.string(), ".tmp.", getpid(), ".", counter++);
}

[[noreturn]] void fail(const std::filesystem::path& path,
                       const std::string& temporary) {
  const int error = errno;
  std::remove(temporary.c_str());
  throw IoError(concat("cannot write ", path.string(), ": ",
                       std::strerror(error),
                       "; check that its folder exists, is writable and has "
                       "space left"));
}

bool write_piece(std::FILE* file, std::string_view piece) {
  return piece.empty() ||
         std::fwrite(piece.data(), 1, piece.size(), file) == piece.size();
}

bool write_all(std::FILE* file, std::span<const std::string_view> pieces) {
  // The content must be on disk before the rename; otherwise a power failure
  // could leave an empty file.
  const bool is_written =
      std::all_of(pieces.begin(), pieces.end(),
                  [&](auto piece) { return write_piece(file, piece); }) &&
      std::fflush(file) == 0 && fsync(fileno(file)) == 0;
  const int error = errno;
  const bool is_closed = std::fclose(file) == 0;
  if (!is_written) errno = error;
  return is_written && is_closed;
}

}  // namespace

void write_file_atomically(const std::filesystem::path& path,
                           std::string_view content) {
  write_pieces_atomically(path, {&content, 1});
}

void write_pieces_atomically(const std::filesystem::path& path,
                             std::span<const std::string_view> pieces) {
  const std::string temporary = temporary_name(path);
  std::FILE* file = std::fopen(temporary.c_str(), "wbe");
  if (!file) fail(path, temporary);
  if (!write_all(file, pieces)) fail(path, temporary);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) fail(path, temporary);
}

}  // namespace sheaf
