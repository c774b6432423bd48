#include "sheaf/base/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
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

std::string write_problem(const std::filesystem::path& path, int error) {
  return concat("cannot write ", path.string(), ": ", std::strerror(error),
                "; check that its folder exists, is writable and has space "
                "left");
}

bool write_piece(std::FILE* file, std::string_view piece) {
  return piece.empty() ||
         std::fwrite(piece.data(), 1, piece.size(), file) == piece.size();
}

// Closes `fd`. After a failed fsync() the data may be lost although a second
// one succeeds, so the file must be written again.
bool write_all(int fd, std::span<const std::string_view> pieces,
               bool is_synced) {
  std::FILE* const file = ::fdopen(fd, "wb");
  if (!file) {
    ::close(fd);
    return false;
  }
  const bool is_written =
      std::all_of(pieces.begin(), pieces.end(),
                  [&](auto piece) { return write_piece(file, piece); }) &&
      std::fflush(file) == 0 && (!is_synced || ::fsync(fd) == 0);
  const int error = errno;
  const bool is_closed = std::fclose(file) == 0;
  if (!is_written) errno = error;
  return is_written && is_closed;
}

// A new file next to `path`, since a rename cannot cross file systems. An
// existing file or link of the chosen name is never opened.
int create_temporary(const std::filesystem::path& path, std::string& name) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  int fd = -1;
  do {
    name = temporary_name(path);
    fd = ::open(name.c_str(), kFlags, 0666);
  } while (fd < 0 && errno == EEXIST);
  return fd;
}

// A device or a pipe is no file to be replaced.
bool is_device(const std::filesystem::path& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) &&
         !S_ISDIR(status.st_mode);
}

void write_to_device(const std::filesystem::path& path,
                     std::span<const std::string_view> pieces) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0 || !write_all(fd, pieces, /*is_synced=*/false))
    throw IoError(write_problem(path, errno));
}

// Some file systems cannot sync a folder and do not need it.
bool needs_no_sync(int error) {
  return error == EINVAL || error == ENOTSUP || error == EOPNOTSUPP;
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, GRND_NONBLOCK) == sizeof number)
    return number;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(now.count()) * 0x9e3779b97f4a7c15u +
         static_cast<std::uint64_t>(::getpid());
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
  if (is_device(path)) return write_to_device(path, pieces);
  std::string temporary;
  const int fd = create_temporary(path, temporary);
  if (fd < 0) throw IoError(write_problem(path, errno));
  if (!write_all(fd, pieces, /*is_synced=*/true) ||
      std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    throw IoError(write_problem(path, error));
  }
  sync_folder(path.parent_path());
}

std::string temporary_name(const std::filesystem::path& path) {
  return fmt::format("{}.tmp.{:016x}", path.string(), random_number());
}

bool is_temporary(const std::filesystem::path& path) {
  constexpr std::string_view kMark = ".tmp.";
  const std::string name = path.filename().string();
  const std::size_t mark = name.rfind(kMark);
  return mark != name.npos && mark > 0 && mark + kMark.size() < name.size() &&
         name.find_first_not_of("0123456789abcdef.", mark + kMark.size()) ==
             name.npos;
}

void sync_folder(const std::filesystem::path& folder) {
  const std::string name = folder.empty() ? "." : folder.string();
  const int fd = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 && errno == EACCES) return;  // it may be written but not read
  const bool is_synced = fd >= 0 && (::fsync(fd) == 0 || needs_no_sync(errno));
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (is_synced) return;
  throw IoError(concat("cannot sync the folder ", name, ": ",
                       std::strerror(error), "; check the disk"));
}

void create_folders(const std::filesystem::path& path) {
  if (path.empty() || std::filesystem::is_directory(path)) return;
  const auto whole = path.has_filename() ? path : path.parent_path();
  create_folders(whole.parent_path());
  if (::mkdir(whole.c_str(), 0777) != 0 &&
      !std::filesystem::is_directory(whole))
    throw IoError(concat("cannot create the folder ", whole.string(), ": ",
                         std::strerror(errno)));
  sync_folder(whole.parent_path());
}

std::vector<std::filesystem::path> entries_of(
    const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator();
       entry.increment(error))
    entries.push_back(entry->path());
  if (error)
    throw IoError(concat("cannot read the folder ", folder.string(), ": ",
                         error.message()));
  std::sort(entries.begin(), entries.end());
  return entries;
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
