#include "sheaf/comm/host/heap.hpp"

#include <algorithm>
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
    : file_(MemoryFile::create(bytes)) {
  SHEAF_ASSERT(reserved < bytes, "heap of ", bytes, " bytes");
  free_[reserved] = bytes - reserved;
}

std::byte* Heap::allocate(std::size_t bytes, bool commit) {
  const auto offset = take(bytes, /*spare=*/0);
  if (!offset)
    throw UsageError(concat("the arena of this rank (", file_.size(),
                            " bytes) has no room for ", bytes,
                            " more bytes; increase SHEAF_ARENA_BYTES"));
  std::byte* block = file_.data() + *offset;
  if (commit && !this->commit(*offset, bytes)) {
    free(block);
    throw UsageError(concat("the host has no ", bytes,
                            " bytes of shared memory left; use smaller "
                            "buffers, fewer ranks, or free memory"));
  }
  return block;
}

std::byte* Heap::try_allocate(std::size_t bytes, std::size_t spare) {
  const auto offset = take(bytes, spare);
  return offset ? file_.data() + *offset : nullptr;
}

std::optional<std::size_t> Heap::take(std::size_t wanted, std::size_t spare) {
  const std::size_t alignment =
      wanted >= kLargeBlock ? kLargeBlock : kCacheLine;
  const std::size_t bytes = round_up(wanted ? wanted : 1, kCacheLine);
  const std::lock_guard lock(mutex_);
  if (spare > 0) largest_ = std::max(largest_, bytes);
  const std::size_t at = spare > 0 && bytes < largest_ / 4
                             ? last_fit(bytes, alignment, spare)
                             : first_fit(bytes, alignment, spare);
  if (at == 0) return std::nullopt;
  const auto it = std::prev(free_.upper_bound(at));
  const auto [begin, length] = *it;
  free_.erase(it);
  if (at > begin) free_[begin] = at - begin;
  if (begin + length > at + bytes)
    free_[at + bytes] = begin + length - at - bytes;
  used_[at] = bytes;
  return at;
}

// For this and the following functions, the caller must hold the lock. Returns
// 0, the offset of the header, if no block fits.
std::size_t Heap::first_fit(std::size_t bytes, std::size_t alignment,
                            std::size_t spare) const {
  for (const auto& [begin, length] : free_) {
    const std::size_t at = round_up(std::max(begin, spare), alignment);
    if (at + bytes <= begin + length) return at;
  }
  return 0;
}

// Used for blocks that are small compared with others: a small block between
// large ones would prevent reuse of their space for large blocks.
std::size_t Heap::last_fit(std::size_t bytes, std::size_t alignment,
                           std::size_t spare) const {
  for (auto it = free_.rbegin(); it != free_.rend(); ++it) {
    const std::size_t end = it->first + it->second;
    if (bytes > end) continue;
    const std::size_t at = (end - bytes) / alignment * alignment;
    if (at >= std::max(it->first, spare)) return at;
  }
  return 0;
}

// The kernel call is slow even for memory that is already committed, so
// committed ranges are recorded.
bool Heap::commit(std::size_t offset, std::size_t bytes) {
  std::unique_lock lock(mutex_);
  const auto parts = bare_parts(offset, offset + bytes);
  lock.unlock();
  for (const auto& [begin, end] : parts)
    if (!file_.commit(begin, end - begin)) return false;
  if (parts.empty()) return true;
  lock.lock();
  note_committed(offset, offset + bytes);
  return true;
}

std::vector<std::pair<std::size_t, std::size_t>> Heap::bare_parts(
    std::size_t begin, std::size_t end) const {
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  auto next = committed_.upper_bound(begin);
  if (next != committed_.begin())
    begin = std::max(begin, std::prev(next)->second);
  for (; begin < end; ++next) {
    const bool is_last = next == committed_.end() || next->first >= end;
    const std::size_t until = is_last ? end : next->first;
    if (begin < until) parts.emplace_back(begin, until);
    if (is_last) break;
    begin = next->second;
  }
  return parts;
}

void Heap::note_committed(std::size_t begin, std::size_t end) {
  auto next = committed_.upper_bound(begin);
  if (next != committed_.begin() && std::prev(next)->second >= begin) {
    --next;
    begin = next->first;
  }
  while (next != committed_.end() && next->first <= end) {
    end = std::max(end, next->second);
    next = committed_.erase(next);
  }
  committed_[begin] = end;
}

void Heap::free(std::byte* block) noexcept {
  const std::lock_guard lock(mutex_);
  const auto used = used_.find(static_cast<std::size_t>(block - file_.data()));
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

void Heap::trim() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& [begin, length] : free_) {
    file_.release(begin, length);
    forget_committed(begin, begin + length);
  }
}

std::size_t Heap::bytes_in_use() const noexcept {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& [begin, length] : used_) sum += length;
  return sum;
}

void Heap::forget_committed(std::size_t begin, std::size_t end) {
  auto it = committed_.upper_bound(begin);
  if (it != committed_.begin()) --it;
  while (it != committed_.end() && it->first < end) {
    const auto [from, until] = *it;
    if (until <= begin) {
      ++it;
      continue;
    }
    it = committed_.erase(it);
    if (from < begin) committed_[from] = begin;
    if (end < until) it = committed_.emplace(end, until).first;
  }
}

}  // namespace sheaf::comm
