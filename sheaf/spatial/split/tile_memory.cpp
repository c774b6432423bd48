#include "sheaf/spatial/split/tile_memory.hpp"

#include <atomic>

#include "sheaf/comm/group/group_core.hpp"
#include "sheaf/parallel/common/gradient_hooks.hpp"

namespace sheaf::spatial {
namespace {

using tensor::SourceKind;

// Below this size, packing costs less than managing a block.
std::atomic<std::size_t> smallest_tile = std::size_t{64} << 10;
// Up to this size, keeping the memory of a pass costs the host less than
// allocating it again in the next pass.
constexpr std::size_t kKeptBetweenPasses = std::size_t{64} << 20;

thread_local int uses = 0;  // number of Use objects on this thread

}  // namespace

class TileMemory::Source final : public tensor::MemorySource {
 public:
  explicit Source(std::shared_ptr<comm::HostMemory> host)
      : host_(std::move(host)) {}

  // A quarter of the arena is reserved for exchanges, which cannot work without
  // it.
  Memory take(std::size_t bytes) override {
    if (bytes < smallest_tile.load()) return {};
    comm::Heap& heap = host_->heap();
    std::byte* const block = heap.try_allocate(bytes, heap.file().size() / 4);
    if (!block) return {};
    return {block, [host = host_](std::byte* at) { host->heap().free(at); }};
  }
  void trim() { host_->heap().trim(); }
  bool holds_much() const {
    return host_->heap().bytes_in_use() > kKeptBetweenPasses;
  }

 private:
  const std::shared_ptr<comm::HostMemory> host_;
};

TileMemory::TileMemory(const comm::Group& group)
    : source_(std::make_shared<Source>(group.core().runtime().shared_memory())),
      id_(tensor::add_source(source_)) {}

TileMemory::~TileMemory() { source_->trim(); }

TileMemory::Use::Use(const TileMemory& memory)
    : before_(tensor::use_source(SourceKind::kTiles, memory.id_)) {
  ++uses;
}

// A failed pass has not deactivated the source: the next operation does.
TileMemory::Use::~Use() {
  --uses;
  tensor::use_source(SourceKind::kTiles, uses > 0 ? before_ : 0);
}

std::size_t TileMemory::set_smallest(std::size_t bytes) {
  return smallest_tile.exchange(bytes);
}

// First returns temporary memory of forward to the host, because some gradients
// need large buffers outside the arena.
void TileMemory::use_in_backward() const {
  if (tensor::source_in_use(SourceKind::kTiles) == id_) return;
  if (source_->holds_much()) source_->trim();
  tensor::use_source(SourceKind::kTiles, id_);
  parallel::at_end_of_backward(
      [] { tensor::use_source(SourceKind::kTiles, 0); });
}

}  // namespace sheaf::spatial
