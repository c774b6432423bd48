#pragma once
// The memory that a rank shares with the other ranks of its host: one memory
// file per rank, divided into blocks. Only the owner allocates. Thread-safe.

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "sheaf/comm/host/memory_file.hpp"

namespace sheaf::comm {

class Heap {
 public:
  // The first `reserved` bytes hold the rank's header; blocks follow.
  Heap(std::size_t bytes, std::size_t reserved);

  MemoryFile& file() { return file_; }
  const MemoryFile& file() const { return file_; }

  // Allocates at least `bytes`, aligned to cache lines (large blocks to huge
  // pages). With `commit`, physical memory is reserved immediately; otherwise
  // pages are allocated on first access. Throws UsageError if the heap or the
  // host does not have enough memory.
  std::byte* allocate(std::size_t bytes, bool commit = true);
  // Same without commit, for optional blocks: the first `spare` bytes of the
  // heap are left to allocate(). Returns null if there is no room.
  std::byte* try_allocate(std::size_t bytes, std::size_t spare);
  // The physical memory is kept for later blocks.
  void free(std::byte* block) noexcept;
  // Returns the physical memory of all free blocks to the host.
  void trim() noexcept;
  std::size_t bytes_in_use() const noexcept;

 private:
  std::optional<std::size_t> take(std::size_t bytes, std::size_t spare);
  std::size_t first_fit(std::size_t bytes, std::size_t alignment,
                        std::size_t spare) const;
  std::size_t last_fit(std::size_t bytes, std::size_t alignment,
                       std::size_t spare) const;
  bool commit(std::size_t offset, std::size_t bytes);
  std::vector<std::pair<std::size_t, std::size_t>> bare_parts(
      std::size_t begin, std::size_t end) const;
  void note_committed(std::size_t begin, std::size_t end);
  void forget_committed(std::size_t begin, std::size_t end);

  mutable std::mutex mutex_;
  MemoryFile file_;
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes, never adjacent
  std::map<std::size_t, std::size_t> used_;
  std::size_t largest_ = 0;                       // in try_allocate() so far
  std::map<std::size_t, std::size_t> committed_;  // begin -> end, not adjacent
};

}  // namespace sheaf::comm
