#pragma once
// The memory that a rank shares with the other ranks of its host: one segment
// per rank, cut into blocks. Only the owner allocates.

#include <cstddef>
#include <map>
#include <mutex>

#include "sheaf/comm/segment.hpp"

namespace sheaf::comm {

class Heap {
 public:
  // Blocks are handed out from `reserved` on; below lies the rank's header.
  Heap(std::size_t bytes, std::size_t reserved);

  Segment& segment() { return segment_; }
  const Segment& segment() const { return segment_; }

  // A block of at least `bytes`, cache-line aligned (large ones to huge
  // pages). With `commit`, memory stands behind it at once; UsageError when
  // the host has not enough. Without, memory is taken as it is touched.
  std::byte* allocate(std::size_t bytes, bool commit = true);
  void free(std::byte* block) noexcept;

 private:
  std::size_t take(std::size_t bytes, std::size_t alignment);

  std::mutex mutex_;
  Segment segment_;
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes, never adjacent
  std::map<std::size_t, std::size_t> used_;
};

}  // namespace sheaf::comm
