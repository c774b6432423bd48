#include "sheaf/comm/heap.hpp"

#include <iterator>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kLargeBlock = std::size_t{2} << 20;

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

Heap::Heap(std::size_t bytes, std::size_t reserved)
    : segment_(Segment::create(bytes)) {
  SHEAF_ASSERT(reserved < bytes, "heap of ", bytes, " bytes");
  free_[reserved] = bytes - reserved;
}

std::byte* Heap::allocate(std::size_t bytes, bool commit) {
  const bool is_large = bytes >= kLargeBlock;
  const std::size_t size = round_up(bytes ? bytes : 1, kCacheLine);
  std::size_t offset = 0;
  {
    const std::lock_guard lock(mutex_);
    offset = take(size, is_large ? kLargeBlock : kCacheLine);
  }
  std::byte* block = segment_.data() + offset;
  if (commit && !segment_.commit(offset, size)) {
    free(block);
    throw UsageError(concat("the host has no ", bytes,
                            " bytes of shared memory left; use smaller "
                            "buffers, fewer ranks, or free memory"));
  }
  return block;
}

// First fit. Caller holds the lock.
std::size_t Heap::take(std::size_t bytes, std::size_t alignment) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [begin, length] = *it;
    const std::size_t at = round_up(begin, alignment);
    if (at - begin + bytes > length) continue;
    free_.erase(it);
    if (at > begin) free_[begin] = at - begin;
    if (begin + length > at + bytes)
      free_[at + bytes] = begin + length - at - bytes;
    used_[at] = bytes;
    return at;
  }
  throw UsageError(concat("the arena of this rank (", segment_.size(),
                          " bytes) has no room for ", bytes,
                          " more; set SHEAF_ARENA_BYTES higher"));
}

void Heap::free(std::byte* block) noexcept {
  const std::lock_guard lock(mutex_);
  const auto used =
      used_.find(static_cast<std::size_t>(block - segment_.data()));
  if (used == used_.end()) return;
  auto [begin, length] = *used;
  used_.erase(used);
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && next->first == begin + length) {
    length += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      before->second += length;
      return;
    }
  }
  free_[begin] = length;
}

}  // namespace sheaf::comm
