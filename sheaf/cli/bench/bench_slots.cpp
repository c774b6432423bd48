#include "sheaf/cli/bench/bench_slots.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "sheaf/topo/host.hpp"

namespace sheaf::cli {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kMaxSlots = 1024;
constexpr std::size_t kMaxWorkingSet = std::size_t{256} << 20;  // per host
constexpr std::size_t kUnknownCache = std::size_t{32} << 20;
// Repeated, this byte is a float between 0.0001 and 2 in every width.
constexpr int kNumberByte = 0x3f;

std::size_t cache_bytes() {
  const topo::Cache cache = topo::detect_host().l3;
  const auto bytes = static_cast<std::size_t>(cache.bytes) *
                     static_cast<std::size_t>(cache.count);
  return bytes > 0 ? bytes : kUnknownCache;
}

std::size_t working_set() {
  static const std::size_t bytes = std::min(2 * cache_bytes(), kMaxWorkingSet);
  return bytes;
}

std::shared_ptr<std::byte> allocate_plain(std::size_t bytes) {
  void* memory = std::aligned_alloc(kLine, bytes);
  if (!memory) throw std::bad_alloc();
  return {static_cast<std::byte*>(memory), [](std::byte* p) { std::free(p); }};
}

}  // namespace

std::size_t slots_for(const Shape& shape, int ranks, int rotate) {
  if (rotate > 0) return static_cast<std::size_t>(rotate);
  const std::size_t share = working_set() / static_cast<std::size_t>(ranks);
  const std::size_t stride = Slots::stride(shape);
  return std::clamp((share + stride - 1) / stride, std::size_t{1}, kMaxSlots);
}

std::size_t Slots::stride(const Shape& shape) {
  const std::size_t bytes = std::max(shape.slot_bytes(), kLine);
  return (bytes + kLine - 1) / kLine * kLine;
}

Slots::Slots(const comm::Group& group, DType dtype, bool in_arena,
             std::size_t bytes)
    : memory_(in_arena ? group.allocate_bytes(bytes) : allocate_plain(bytes)) {
  std::memset(memory_.get(), dtype == DType::kBool ? 1 : kNumberByte, bytes);
}

std::byte* Slots::at(const Shape& shape, std::size_t index) const {
  return memory_.get() + index * stride(shape);
}

}  // namespace sheaf::cli
