#pragma once
// Shared memory of one host. A segment is an anonymous file in memory: it has
// no name, so nothing can be left behind by a killed run, and it is not bound
// by the size of /dev/shm. Peers open it through its owner's process id.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sheaf::comm {

class Segment {
 public:
  // `bytes` of address space; memory is taken as it is committed or touched.
  static Segment create(std::size_t bytes);
  // Opens the segment that process `pid` of this host holds as `fd`. Opened
  // twice in one process it is mapped once.
  static Segment open(pid_t pid, int fd, std::size_t bytes);

  Segment() = default;
  Segment(Segment&&) noexcept;
  Segment& operator=(Segment&&) noexcept;
  ~Segment();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  int fd() const { return fd_; }
  bool contains(const void* pointer, std::size_t bytes) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(data_);
    const auto at = reinterpret_cast<std::uintptr_t>(pointer);
    return at >= begin && at - begin <= size_ && bytes <= size_ - (at - begin);
  }

  // Makes sure that memory stands behind a range, so that touching it later
  // cannot fault. False when the host has no more.
  bool commit(std::size_t offset, std::size_t bytes);
  // Gives the memory behind a range back to the host; it is zero afterwards.
  void release(std::size_t offset, std::size_t bytes) noexcept;

  // The owner holds a lock for as long as it lives; the kernel drops it when
  // the process ends in any way.
  void lock_as_owner();
  void unlock();
  bool is_owner_alive() const;

 private:
  Segment(int fd, std::size_t bytes);

  int fd_ = -1;
  std::size_t size_ = 0;
  std::byte* data_ = nullptr;
  std::shared_ptr<void> mapping_;
};

}  // namespace sheaf::comm
