#include "sheaf/train/files/durable.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlockBytes = 1 << 20;

[[noreturn]] void fail(const char* what, const fs::path& path, int error) {
  throw IoError(concat("cannot ", what, " ", path.string(), ": ",
                       std::strerror(error),
                       "; check that its folder exists, is writable and has "
                       "space left"));
}

[[noreturn]] void fail_to_read(const fs::path& path, int error) {
  const std::string text =
      concat("cannot read ", path.string(), ": ", std::strerror(error),
             "; check the path and its permissions");
  for (const int one : {EACCES, EPERM, EMFILE, ENFILE, ENOMEM, ESTALE,
                        ETIMEDOUT, ECONNREFUSED, EHOSTUNREACH, ENETUNREACH})
    if (error == one) throw AccessError(text);
  throw IoError(text);
}

bool has_no_feature(int error) {
  return error == EINVAL || error == ENOSYS || error == ENOTSUP ||
         error == EOPNOTSUPP;
}

// A regular file, opened for reading. A pipe in its place does not block.
class InputFile {
 public:
  explicit InputFile(const fs::path& path) : path_(path) {
    constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    do {
      fd_ = ::open(path.c_str(), kFlags);
    } while (fd_ < 0 && errno == EINTR);
    if (fd_ < 0) fail_to_read(path, errno);
  }
  ~InputFile() { ::close(fd_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::uint64_t size() const {
    struct stat status = {};
    if (::fstat(fd_, &status) != 0) fail_to_read(path_, errno);
    if (!S_ISREG(status.st_mode))
      throw IoError(
          concat("cannot read ", path_.string(), ": it is not a regular file"));
    return static_cast<std::uint64_t>(status.st_size);
  }

  // The number of bytes read; fewer than `count` only at the end of the file.
  std::size_t read(char* to, std::size_t count) const {
    std::size_t filled = 0;
    while (filled < count) {
      const ssize_t got = ::read(fd_, to + filled, count - filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail_to_read(path_, errno);
      if (got == 0) break;
      filled += static_cast<std::size_t>(got);
    }
    return filled;
  }

 private:
  const fs::path& path_;
  int fd_ = -1;
};

}  // namespace

void sync_file(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail("write", file, errno);
  const bool is_synced = ::fsync(fd) == 0;
  const int error = errno;
  ::close(fd);
  if (!is_synced) fail("write", file, error);
}

std::string read_whole(const fs::path& file, std::uint64_t most) {
  const InputFile in(file);
  const std::uint64_t size = in.size();
  if (size > most)
    throw IoError(concat("cannot read ", file.string(), ": it has ", size,
                         " bytes, more than ", most));
  std::string bytes(static_cast<std::size_t>(size), '\0');
  bytes.resize(in.read(bytes.data(), bytes.size()));
  return bytes;
}

FileSummary summarize(const fs::path& file, std::uint64_t most) {
  const InputFile in(file);
  in.size();
  std::vector<char> block(kBlockBytes);
  FileSummary summary;
  for (std::size_t count = block.size();
       count == block.size() && summary.bytes <= most;) {
    count = in.read(block.data(), block.size());
    summary.bytes += count;
    summary.checksum =
        crc32c(std::string_view(block.data(), count), summary.checksum);
  }
  return summary;
}

bool replace_link(const fs::path& target, const fs::path& name) {
  fs::path temporary;
  int result = 0;
  do {
    temporary = temporary_name(name);
    result = ::symlink(target.c_str(), temporary.c_str());
  } while (result != 0 && errno == EEXIST);
  if (result != 0 && (errno == EPERM || has_no_feature(errno))) return false;
  if (result == 0 && ::rename(temporary.c_str(), name.c_str()) == 0)
    return true;
  const int error = errno;
  ::unlink(temporary.c_str());
  fail("create the link", name, error);
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail("write", to, errno);
}

bool exchange_names(const fs::path& one, const fs::path& other) {
  if (::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(),
                  RENAME_EXCHANGE) == 0)
    return true;
  if (has_no_feature(errno)) return false;
  fail("write", other, errno);
}

}  // namespace sheaf::train
