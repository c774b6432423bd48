#include "sheaf/formats/bytes/open_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sheaf/base/error.hpp"

namespace sheaf::formats {
namespace {

[[noreturn]] void fail_to_open(const std::string& path,
                               const std::string& reason) {
  throw IoError(concat("cannot read ", path, ": ", reason));
}

}  // namespace

// O_NONBLOCK: opening a pipe would wait for its writer.
OpenFile::OpenFile(std::string path)
    : path_(std::move(path)),
      descriptor_(
          ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  if (descriptor_ < 0) fail_to_open(path_, std::strerror(errno));
  std::string reason;
  if (::fstat(descriptor_, &first_) != 0)
    reason = std::strerror(errno);
  else if (S_ISDIR(first_.st_mode))
    reason = "it is a folder";
  else if (!S_ISREG(first_.st_mode))
    reason = "it is a pipe, a socket or a device; use a regular file";
  if (reason.empty()) return;
  ::close(descriptor_);
  fail_to_open(path_, reason);
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      first_(other.first_) {}

std::size_t OpenFile::size() const {
  return static_cast<std::size_t>(first_.st_size);
}

// Takes a third of the time of fstat(). Nothing uses the position.
std::size_t OpenFile::size_now() const {
  const off_t end = ::lseek(descriptor_, 0, SEEK_END);
  if (end < 0) fail_to_open(path_, std::strerror(errno));
  return static_cast<std::size_t>(end);
}

bool OpenFile::was_modified() const {
  struct stat now {};
  if (::fstat(descriptor_, &now) != 0)
    fail_to_open(path_, std::strerror(errno));
  return now.st_mtim.tv_sec != first_.st_mtim.tv_sec ||
         now.st_mtim.tv_nsec != first_.st_mtim.tv_nsec;
}

}  // namespace sheaf::formats
