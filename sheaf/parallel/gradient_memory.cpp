#include "sheaf/parallel/gradient_memory.hpp"

#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <map>
#include <mutex>

namespace sheaf::parallel {

// Blocks that are free, by size. Blocks in use keep it alive.
class GradientMemory::Shelf : public std::enable_shared_from_this<Shelf> {
 public:
  Shelf(const comm::Group& group, const std::vector<std::size_t>& sizes)
      : group_(group) {
    for (const std::size_t size : sizes) ++stocks_[size].most;
  }

  // Null for sizes that are not kept here.
  c10::DataPtr take(std::size_t bytes) {
    const auto stock = stocks_.find(bytes);
    if (stock == stocks_.end()) return {};
    auto block = std::make_unique<Block>(
        Block{shared_from_this(), stock->second, take_from(stock->second)});
    if (!block->memory) block->memory = group_.allocate_bytes(bytes);
    void* const data = block->memory.get();
    return {data, block.release(), give_back, c10::DeviceType::CPU};
  }

 private:
  using Memory = std::shared_ptr<std::byte>;
  struct Stock {
    std::size_t most = 1;  // that are kept: one per parameter, and a spare
    std::vector<Memory> free{};
  };
  struct Block {
    std::shared_ptr<Shelf> shelf;
    Stock& stock;
    Memory memory;
  };

  Memory take_from(Stock& stock) {
    const std::lock_guard lock(mutex_);
    if (stock.free.empty()) return {};
    Memory memory = std::move(stock.free.back());
    stock.free.pop_back();
    return memory;
  }
  static void give_back(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    const std::lock_guard lock(block->shelf->mutex_);
    if (block->stock.free.size() < block->stock.most)
      block->stock.free.push_back(std::move(block->memory));
  }

  const comm::Group group_;
  std::mutex mutex_;
  std::map<std::size_t, Stock> stocks_;
};

namespace {

thread_local GradientMemory::Shelf* shelf_in_use = nullptr;

// In front of libtorch's own. Its interface has changed between versions:
// each has one of these as a virtual function.
class ShelvesFirst final : public c10::Allocator {
 public:
  explicit ShelvesFirst(c10::Allocator* other) : other_(other) {}

  c10::DataPtr allocate(std::size_t bytes) const { return find(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return find(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }

 private:
  c10::DataPtr find(std::size_t bytes) const {
    if (shelf_in_use) [[unlikely]]
      if (auto memory = shelf_in_use->take(bytes)) return memory;
    return other_->allocate(bytes);
  }

  c10::Allocator* const other_;
};

void stand_in_front() {
  static ShelvesFirst* const allocator = [] {
    auto* const made = new ShelvesFirst(c10::GetCPUAllocator());
    c10::SetCPUAllocator(made, /*priority=*/1);
    return made;
  }();
  (void)allocator;
}

}  // namespace

GradientMemory::GradientMemory(const comm::Group& group,
                               const std::vector<std::size_t>& sizes)
    : shelf_(std::make_shared<Shelf>(group, sizes)) {
  stand_in_front();
}

GradientMemory::~GradientMemory() {
  if (shelf_in_use == shelf_.get()) leave();
}

void GradientMemory::enter() { shelf_in_use = shelf_.get(); }

void GradientMemory::leave() { shelf_in_use = nullptr; }

}  // namespace sheaf::parallel
