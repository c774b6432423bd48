#include "sheaf/comm/host/memory_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "sheaf/base/child_processes.hpp"
#include "sheaf/base/error.hpp"
#include "sheaf/base/system.hpp"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace sheaf::comm {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLargeRequest = std::size_t{16} << 20;

using FileId = std::pair<dev_t, ino_t>;

// Maps at a multiple of the huge page size, which the kernel requires for huge
// pages: reserves more address space and maps over its aligned part.
void* map_aligned(int fd, std::size_t bytes) {
  const std::size_t reserved = bytes + kHugePage;
  void* area = mmap(nullptr, reserved, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* data = MAP_FAILED;
  if (area != MAP_FAILED) {
    auto* begin = static_cast<std::byte*>(area);
    const std::size_t skip =
        (kHugePage - reinterpret_cast<std::uintptr_t>(area) % kHugePage) %
        kHugePage;
    if (skip) munmap(begin, skip);
    if (skip < kHugePage) munmap(begin + skip + bytes, kHugePage - skip);
    data = mmap(begin + skip, bytes, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
  }
  if (data == MAP_FAILED)
    throw CommError(concat("cannot map ", bytes,
                           " bytes of shared memory: ", strerror(errno),
                           "; lower SHEAF_ARENA_BYTES or raise `ulimit -v`"));
  return data;
}

// Maps each file once per process. Ranks that are threads of one process share
// a mapping, so that race detectors see a single memory range.
std::shared_ptr<void> map_once(int fd, std::size_t bytes) {
  static std::mutex mutex;
  static std::map<FileId, std::weak_ptr<void>> mappings;
  struct stat status {};
  if (fstat(fd, &status) != 0)
    throw CommError(concat("cannot stat shared memory: ", strerror(errno)));
  const std::lock_guard lock(mutex);
  auto& known = mappings[{status.st_dev, status.st_ino}];
  if (auto mapping = known.lock()) return mapping;
  void* data = map_aligned(fd, bytes);
  std::shared_ptr<void> mapping(data, [bytes](void* at) { munmap(at, bytes); });
  known = mapping;
  return mapping;
}

// The kernel overcommits shared memory until it has to kill processes, so large
// requests are compared with the available memory, of which a tenth must stay
// free.
bool has_memory_for(std::size_t bytes) {
  const auto available = available_memory();
  return !available || bytes < *available / 10 * 9;
}

// Whether this is the file that its owner named.
bool is_named(int fd, const HeapName& name) {
  struct stat status {};
  decltype(name.nonce) nonce{};
  return ::fstat(fd, &status) == 0 && status.st_dev == name.device &&
         status.st_ino == name.inode &&
         static_cast<std::uint64_t>(status.st_size) == name.bytes &&
         ::pread(fd, &nonce, sizeof nonce, 0) ==
             static_cast<ssize_t>(sizeof nonce) &&
         nonce == name.nonce;
}

struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

RankProcess RankProcess::open(pid_t pid) {
  RankProcess process;
  process.pidfd_ = Socket(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return process;
}

bool RankProcess::has_ended() const {
  pollfd entry{pidfd_.fd(), POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

MemoryFile::MemoryFile(int fd, std::size_t bytes) : fd_(fd), size_(bytes) {
  try {
    mapping_ = map_once(fd, bytes);
  } catch (...) {
    ::close(fd);
    throw;
  }
  close_in_children(fd);
  data_ = static_cast<std::byte*>(mapping_.get());
}

MemoryFile MemoryFile::create(std::size_t bytes) {
  const int fd = memfd_create("sheaf", MFD_CLOEXEC);
  if (fd < 0)
    throw CommError(concat("cannot create shared memory: ", strerror(errno)));
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    const int code = errno;
    close(fd);
    throw CommError(concat("cannot size shared memory to ", bytes,
                           " bytes: ", strerror(code)));
  }
  return MemoryFile(fd, bytes);
}

MemoryFile MemoryFile::open(const HeapName& name) {
  // First the process, then its file: if the file is the right one, so is the
  // process, because its id is not reused while it is open.
  RankProcess owner = RankProcess::open(name.pid);
  const std::string path = concat("/proc/", name.pid, "/fd/", name.fd);
  const int mine = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  constexpr const char* kRemedy =
      "; ranks of one host must run as the same user and share one /proc, or "
      "set SHEAF_HOSTS to the number of ranks to disable shared memory";
  if (mine < 0)
    throw CommError(concat("cannot open the shared memory of process ",
                           name.pid, " (", path, "): ", strerror(errno),
                           kRemedy));
  if (!is_named(mine, name)) {
    ::close(mine);
    throw CommError(concat(path,
                           " is not the shared memory of the rank with "
                           "process id ",
                           name.pid, kRemedy));
  }
  MemoryFile file(mine, name.bytes);
  if (name.pid != ::getpid()) file.owner_ = std::move(owner);
  return file;
}

HeapName MemoryFile::name() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0)
    throw CommError(concat("cannot stat shared memory: ", strerror(errno)));
  HeapName name{.pid = ::getpid(),
                .fd = fd_,
                .bytes = size_,
                .device = status.st_dev,
                .inode = status.st_ino,
                .nonce = {}};
  std::memcpy(&name.nonce, data_, sizeof name.nonce);
  return name;
}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept {
  *this = std::move(other);
}

MemoryFile& MemoryFile::operator=(MemoryFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(owner_, other.owner_);
  std::swap(size_, other.size_);
  std::swap(data_, other.data_);
  std::swap(mapping_, other.mapping_);
  return *this;
}

MemoryFile::~MemoryFile() {
  if (fd_ < 0) return;
  // Explicit, because another rank in this process (a thread) may share the
  // mapping, which keeps the file open and the lock held.
  unlock();
  keep_in_children(fd_);
  ::close(fd_);
}

bool MemoryFile::commit(std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return true;
  if (bytes >= kLargeRequest && !has_memory_for(bytes)) return false;
  if (fallocate(fd_, 0, static_cast<off_t>(offset),
                static_cast<off_t>(bytes)) != 0)
    return false;
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t begin = offset & ~(page - 1);
  const std::size_t end = (offset + bytes + page - 1) & ~(page - 1);
  std::byte* at = data_ + begin;
  // Both calls are hints that older kernels may not support. MADV_COLLAPSE
  // brought no speedup in measurements and took ten times as long, so huge
  // pages are left to the host's setting.
  if (bytes >= kHugePage) madvise(at, end - begin, MADV_HUGEPAGE);
  madvise(at, end - begin, MADV_POPULATE_WRITE);
  return true;
}

void MemoryFile::release(std::size_t offset, std::size_t bytes) noexcept {
  // If the kernel does not support this, the memory remains allocated.
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(offset), static_cast<off_t>(bytes));
}

void MemoryFile::lock_as_owner() {
  auto lock = whole_file(F_WRLCK);
  if (fcntl(fd_, F_OFD_SETLK, &lock) != 0)
    throw CommError(concat("cannot lock shared memory: ", strerror(errno)));
}

void MemoryFile::unlock() {
  auto lock = whole_file(F_UNLCK);
  fcntl(fd_, F_OFD_SETLK, &lock);
}

bool MemoryFile::is_owner_alive() const {
  if (owner_.is_known()) return !owner_.has_ended();
  auto lock = whole_file(F_WRLCK);
  if (fcntl(fd_, F_OFD_GETLK, &lock) != 0) return true;  // unknown
  return lock.l_type != F_UNLCK;
}

}  // namespace sheaf::comm
