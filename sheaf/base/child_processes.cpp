#include "sheaf/base/child_processes.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <set>

namespace sheaf {
namespace {

// Never destroyed: other destructors use it until the process ends.
struct PrivateFiles {
  std::mutex mutex;
  std::set<int> fds;

  static PrivateFiles& get() {
    static auto* const files = new PrivateFiles;
    return *files;
  }
};

// The lock is held during fork(), so that the child finds a consistent list.
void before_fork() { PrivateFiles::get().mutex.lock(); }
void after_fork() { PrivateFiles::get().mutex.unlock(); }
void in_child() {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : PrivateFiles::get().fds)
    if (null < 0 || ::dup3(null, fd, O_CLOEXEC) < 0) ::close(fd);
  if (null >= 0) ::close(null);
  PrivateFiles::get().fds.clear();
  after_fork();
}

}  // namespace

void close_in_children(int fd) {
  static const int registered =
      ::pthread_atfork(before_fork, after_fork, in_child);
  static_cast<void>(registered);
  PrivateFiles& files = PrivateFiles::get();
  const std::lock_guard lock(files.mutex);
  files.fds.insert(fd);
}

void keep_in_children(int fd) noexcept {
  PrivateFiles& files = PrivateFiles::get();
  const std::lock_guard lock(files.mutex);
  files.fds.erase(fd);
}

}  // namespace sheaf
