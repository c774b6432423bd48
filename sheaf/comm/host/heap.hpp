#pragma once
// The memory that a rank shares with the other ranks of its host: one segment
// per rank, cut into blocks. Only the owner allocates.

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "sheaf/comm/host/segment.hpp"

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
  // Without commit, not in the first `spare` bytes of the heap, which are left
  // to those who cannot do without. Null where there is no room.
  std::byte* try_allocate(std::size_t bytes, std::size_t spare);
  // Memory stays behind it, for the next block there.
  void free(std::byte* block) noexcept;
  // Gives the memory behind all that is free back to the host.
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
  Segment segment_;
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes, never adjacent
  std::map<std::size_t, std::size_t> used_;
  std::size_t largest_ = 0;                       // of those with a spare
  std::map<std::size_t, std::size_t> committed_;  // begin -> end, likewise
};

}  // namespace sheaf::comm
