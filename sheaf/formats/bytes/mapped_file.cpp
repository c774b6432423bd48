#include "sheaf/formats/bytes/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"

namespace sheaf::formats {
namespace {

[[noreturn]] void fail_to_open(const std::string& path,
                               const std::string& reason) {
  throw IoError(concat("cannot read ", path, ": ", reason));
}

std::uint8_t* map_whole(const OpenFile& file) {
  void* place = ::mmap(nullptr, file.size(), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_NORESERVE, file.descriptor(), 0);
  if (place == MAP_FAILED)
    throw IoError(
        concat("cannot map ", file.path(), ": ", std::strerror(errno)));
  return static_cast<std::uint8_t*>(place);
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

MappedFile::MappedFile(OpenFile file)
    : file_(std::move(file)), begin_(map_whole(file_)) {
  watch_.emplace(begin_, size());
}

MappedFile::~MappedFile() {
  const bool has_failed = watch_->has_failed();
  watch_.reset();
  ::munmap(begin_, size());
  if (has_failed && !was_reported_)
    log_error(
        "{} was truncated, or its disk failed, while it was in use: "
        "zeros were read instead of its content",
        file_.path());
}

void MappedFile::check() const {
  const std::size_t now = file_.size_now();
  const bool has_failed = watch_->has_failed();
  if (has_failed || now < size()) was_reported_ = true;
  if (now < size())
    throw IoError(concat(file_.path(), ": the file was truncated from ", size(),
                         " to ", now,
                         " bytes while it was in use; restore it and repeat "
                         "what failed"));
  if (has_failed)
    throw IoError(concat(file_.path(),
                         ": a part of the file could not be read while it was "
                         "in use: it was truncated for a time, or its disk "
                         "has failed"));
  look_for_changes();
}

void MappedFile::look_for_changes() const {
  struct timespec now {};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  if (last_look_.load() == now.tv_sec) return;
  last_look_.store(now.tv_sec);
  if (file_.was_modified() && !was_logged_.exchange(true))
    log_warn(
        "{} was modified while it is in use; examples may come from its "
        "old or from its new content",
        file_.path());
}

}  // namespace sheaf::formats
