#include "sheaf/train/files/durable.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* what, const fs::path& path) {
  throw IoError(concat("cannot ", what, " ", path.string(), ": ",
                       std::strerror(errno),
                       "; check that its folder exists, is writable and has "
                       "space left"));
}

bool write_bytes(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

void write_durably(const fs::path& file, std::string_view bytes) {
  const int fd =
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) fail("write", file);
  const bool is_written = write_bytes(fd, bytes) && ::fsync(fd) == 0;
  const int error = errno;
  const bool is_closed = ::close(fd) == 0;
  if (!is_written) errno = error;
  if (!is_written || !is_closed) fail("write", file);
}

void sync_file(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail("write", file);
  const bool is_synced = ::fsync(fd) == 0;
  const int error = errno;
  ::close(fd);
  errno = error;
  if (!is_synced) fail("write", file);
}

void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail("open the folder", folder);
  ::fsync(fd);  // not all file systems support or need this
  ::close(fd);
}

std::string read_whole(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream bytes;
  if (!in || fs::is_directory(file)) fail("read", file);
  bytes << in.rdbuf();
  if (in.bad()) fail("read", file);
  return std::move(bytes).str();
}

void replace_folder(const fs::path& draft, const fs::path& place) {
  if (!fs::exists(place)) {
    if (::rename(draft.c_str(), place.c_str()) != 0) fail("write", place);
    return;
  }
  const bool is_swapped = ::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD,
                                      place.c_str(), RENAME_EXCHANGE) == 0;
  if (is_swapped) {
    remove_tree(draft);
    return;
  }
  // The file system cannot exchange names atomically: a crash between the two
  // renames leaves only the draft.
  fs::path away = draft;
  away += "-old";
  if (::rename(place.c_str(), away.c_str()) != 0 ||
      ::rename(draft.c_str(), place.c_str()) != 0)
    fail("write", place);
  remove_tree(away);
}

void replace_link(const fs::path& target, const fs::path& name) {
  fs::path temporary = name;
  temporary += ".tmp";
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) != 0 ||
      ::rename(temporary.c_str(), name.c_str()) != 0)
    fail("create the link", name);
}

}  // namespace sheaf::train
