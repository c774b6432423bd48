#include "sheaf/base/files.hpp"

#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "sheaf/base/error.hpp"

namespace sheaf {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

[[noreturn]] void fail_to_read(const std::filesystem::path& path) {
  throw IoError(concat("cannot read ", path.string(), ": ",
                       std::strerror(errno),
                       "; check the path and its permissions"));
}

void make_room(std::string& content, std::size_t bytes,
               const std::filesystem::path& path) {
  try {
    content.resize(bytes);
  } catch (const std::exception&) {  // length_error, bad_alloc
    throw IoError(concat("cannot read ", path.string(), ": it has at least ",
                         bytes - 1, " bytes, more than fit into memory"));
  }
}

void check_size(std::size_t bytes, std::size_t most,
                const std::filesystem::path& path) {
  if (bytes > most)
    throw IoError(concat("cannot read ", path.string(), ": it has more than ",
                         most, " bytes; check that it is the right file"));
}

// The temporary file is in the folder of `path`, since a rename cannot cross
// file systems. Each call returns a different name, so writers do not collide.
std::string temporary_name(const std::filesystem::path& path) {
  static std::atomic<int> counter{0};
  return concat(path.string(), ".tmp.", getpid(), ".", counter++);
}

[[noreturn]] void fail_to_write(const std::filesystem::path& path,
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

constexpr int kOpenFolders = 16;

int remove_one(const char* path, const struct stat*, int, FTW*) {
  return std::remove(path);
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
  if (!file) fail_to_write(path, temporary);
  if (!write_all(file, pieces)) fail_to_write(path, temporary);
  if (std::rename(temporary.c_str(), path.c_str()) != 0)
    fail_to_write(path, temporary);
}

std::string read_file(const std::filesystem::path& path,
                      std::size_t most_bytes) {
  const std::unique_ptr<std::FILE, CloseFile> file(
      std::fopen(path.c_str(), "rbe"));
  if (!file) fail_to_read(path);
  std::string content;
  std::error_code unknown;
  const auto size = std::filesystem::file_size(path, unknown);
  // One byte more than the size, so that the first read finds the end.
  std::size_t room = unknown ? 1 << 16 : size + 1;
  for (std::size_t filled = 0;; room *= 2) {
    make_room(content, std::min(room - 1, most_bytes) + 1, path);
    const std::size_t wanted = content.size() - filled;
    const std::size_t got =
        std::fread(content.data() + filled, 1, wanted, file.get());
    filled += got;
    check_size(filled, most_bytes, path);
    if (got == wanted) continue;
    // Opening a folder succeeds; reading it fails.
    if (std::ferror(file.get())) fail_to_read(path);
    content.resize(filled);
    return content;
  }
}

bool try_remove_tree(const std::filesystem::path& path) noexcept {
  const int flags = FTW_DEPTH | FTW_PHYS;
  return ::nftw(path.c_str(), remove_one, kOpenFolders, flags) == 0 ||
         errno == ENOENT;
}

void remove_tree(const std::filesystem::path& path) {
  if (!try_remove_tree(path))
    throw IoError(concat("cannot remove ", path.string(), ": ",
                         ::strerrordesc_np(errno)));
}

WorkFolder::WorkFolder(const std::filesystem::path& parent,
                       std::string_view prefix) {
  std::string name = (parent / concat(prefix, "XXXXXX")).string();
  if (!::mkdtemp(name.data()))
    throw IoError(concat("cannot create a folder in ", parent.string(), ": ",
                         ::strerrordesc_np(errno)));
  path_ = name;
}

}  // namespace sheaf
