#pragma once
// Shared memory of one host. A memory file is an anonymous file in memory. It
// has no name, so a killed run leaves nothing behind, and it is not limited by
// the size of /dev/shm. Peers open it through the process id of its owner.

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "sheaf/comm/network/socket.hpp"

namespace sheaf::comm {

// Identifies a memory file to the other processes of its host. In a container
// the same process id may belong to another process, so the file is recognized
// by its device, its inode and by a random number at its start.
struct HeapName {
  std::int32_t pid = 0;
  std::int32_t fd = -1;
  std::uint64_t bytes = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::array<std::uint64_t, 2> nonce{};
};

// Another process of this host. The kernel reports its end through a pidfd,
// whatever the reason, even if child processes of it live on.
class RankProcess {
 public:
  // Not known if there is no such process, or if the kernel is older than 5.3
  // or forbids it.
  static RankProcess open(pid_t pid);

  RankProcess() = default;
  bool is_known() const { return static_cast<bool>(pidfd_); }
  bool has_ended() const;

 private:
  Socket pidfd_;
};

class MemoryFile {
 public:
  // Reserves `bytes` of address space; memory is allocated by commit() or on
  // first access. Throws CommError, as does open().
  static MemoryFile create(std::size_t bytes);
  // Opens the memory file of another process of this host. A memory file that
  // is opened twice in one process is mapped once.
  static MemoryFile open(const HeapName& name);

  MemoryFile() = default;
  MemoryFile(MemoryFile&&) noexcept;
  MemoryFile& operator=(MemoryFile&&) noexcept;
  ~MemoryFile();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  int fd() const { return fd_; }
  bool contains(const void* pointer, std::size_t bytes) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(data_);
    const auto at = reinterpret_cast<std::uintptr_t>(pointer);
    return at >= begin && at - begin <= size_ && bytes <= size_ - (at - begin);
  }

  // Allocates physical memory for a range, so that later accesses cannot fail.
  // Returns false if the host does not have enough memory.
  bool commit(std::size_t offset, std::size_t bytes);
  // Returns the physical memory of a range to the host; the range reads as zero
  // afterwards.
  void release(std::size_t offset, std::size_t bytes) noexcept;

  // The file begins with a nonce, which the creator writes.
  HeapName name() const;

  // The owner also holds a lock while it is alive. It shows the end of an owner
  // in this process (a thread), and of any owner on old kernels.
  void lock_as_owner();
  void unlock();
  bool is_owner_alive() const;

 private:
  MemoryFile(int fd, std::size_t bytes);

  int fd_ = -1;
  RankProcess owner_{};  // not known for files of this process
  std::size_t size_ = 0;
  std::byte* data_ = nullptr;
  std::shared_ptr<void> mapping_;
};

}  // namespace sheaf::comm
