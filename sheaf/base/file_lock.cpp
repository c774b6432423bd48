#include "sheaf/base/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "sheaf/base/child_processes.hpp"
#include "sheaf/base/error.hpp"
#include "sheaf/base/system.hpp"

namespace sheaf {
namespace {

constexpr std::size_t kMostHolderBytes = 200;

// Written at the end, for people who wonder whether to remove the file.
constexpr std::string_view kFree = "not locked\n";

// O_NONBLOCK: a pipe of this name must not block.
constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

int retry_open(const std::filesystem::path& file, int flags) {
  int fd = -1;
  do {
    fd = ::open(file.c_str(), flags | kFlags, 0666);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

}  // namespace

FileLock::FileLock(std::filesystem::path file) : file_(std::move(file)) {
  // Another process may remove the file between open() and lock().
  do {
    release();
    open();
    if (fd_ >= 0) lock();
  } while (state_ == State::kHeld && !is_current());
}

FileLock::~FileLock() { release(); }

FileLock::FileLock(FileLock&& other) noexcept { *this = std::move(other); }

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  if (this == &other) return *this;
  release();
  file_ = std::move(other.file_);
  fd_ = std::exchange(other.fd_, -1);
  state_ = std::exchange(other.state_, State::kNotWritable);
  error_ = other.error_;
  is_created_ = std::exchange(other.is_created_, false);
  has_written_ = std::exchange(other.has_written_, false);
  return *this;
}

// A file of another user may be readable only; that suffices for a lock on most
// file systems.
void FileLock::open() {
  state_ = State::kNotWritable;
  fd_ = retry_open(file_, O_RDWR | O_CREAT | O_EXCL);
  is_created_ = fd_ >= 0;
  if (fd_ < 0 && errno == EEXIST) {
    fd_ = retry_open(file_, O_RDWR | O_CREAT);
    if (fd_ < 0 && errno == EACCES) fd_ = retry_open(file_, O_RDONLY);
  }
  error_ = errno;
  if (fd_ >= 0) close_in_children(fd_);
}

void FileLock::lock() {
  int result = 0;
  do {
    result = ::flock(fd_, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  error_ = errno;
  state_ = result == 0             ? State::kHeld
           : error_ == EWOULDBLOCK ? State::kHeldByOther
                                   : State::kNotSupported;
}

// Whether the locked file still has its name.
bool FileLock::is_current() const {
  struct stat mine = {}, named = {};
  return ::fstat(fd_, &mine) == 0 && ::lstat(file_.c_str(), &named) == 0 &&
         mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

void FileLock::release() noexcept {
  if (fd_ < 0) return;
  if (state_ != State::kHeldByOther && is_current()) {
    if (has_written_) write(kFree);
    // Another process may have used the file before this one locked it.
    if (is_created_ && is_empty()) ::unlink(file_.c_str());
  }
  keep_in_children(fd_);
  ::close(fd_);
  fd_ = -1;
  is_created_ = has_written_ = false;
}

bool FileLock::is_empty() const noexcept {
  struct stat status = {};
  return ::fstat(fd_, &status) == 0 && status.st_size == 0;
}

bool FileLock::write(std::string_view text) const noexcept {
  return ::ftruncate(fd_, 0) == 0 &&
         ::pwrite(fd_, text.data(), text.size(), 0) > 0;
}

std::string FileLock::problem() const { return std::strerror(error_); }

void FileLock::write_holder() {
  has_written_ =
      write(concat("process ", ::getpid(), " on host ", host_name(), "\n"));
}

std::string FileLock::holder() const {
  char bytes[kMostHolderBytes];
  const ssize_t count = fd_ < 0 ? 0 : ::pread(fd_, bytes, sizeof bytes, 0);
  std::string text(bytes,
                   static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (text == kFree) return "";
  std::erase_if(text, [](char byte) { return byte < ' ' || byte > '~'; });
  return text;
}

}  // namespace sheaf
