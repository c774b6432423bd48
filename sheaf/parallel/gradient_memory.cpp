#include "sheaf/parallel/gradient_memory.hpp"

#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

namespace sheaf::parallel {

// Blocks that are free, by size. Blocks in use keep it alive.
class GradientMemory::Shelf : public std::enable_shared_from_this<Shelf> {
 public:
  using Memory = std::shared_ptr<std::byte>;

  Shelf(const comm::Group& group, const std::vector<std::size_t>& sizes)
      : group_(group) {
    for (const std::size_t size : sizes) ++stocks_[size].most;
  }

  // Null for sizes that are not kept here.
  Memory take(std::size_t bytes) {
    const auto found = stocks_.find(bytes);
    if (found == stocks_.end()) return {};
    auto& free = found->second.free;
    {
      const std::lock_guard lock(mutex_);
      if (!free.empty()) {
        Memory memory = std::move(free.back());
        free.pop_back();
        return memory;
      }
    }
    return group_.allocate_bytes(bytes);
  }
  void give_back(std::size_t bytes, Memory memory) {
    Stock& stock = stocks_.at(bytes);
    const std::lock_guard lock(mutex_);
    if (stock.free.size() < stock.most) stock.free.push_back(std::move(memory));
  }

 private:
  struct Stock {
    std::size_t most = 1;  // that are kept: one per parameter, and a spare
    std::vector<Memory> free{};
  };

  const comm::Group group_;
  std::mutex mutex_;
  std::map<std::size_t, Stock> stocks_;
};

namespace {

using Shelf = GradientMemory::Shelf;

thread_local Shelf* shelf_in_use = nullptr;

// In front of libtorch's own allocator. Some of its callers hold bare addresses
// and give these back, so that a block must be found by its address.
//
// The interface has changed between versions: each has one of the two
// allocate() as a virtual function.
class ShelvesFirst final : public c10::Allocator {
 public:
  // Stands there from the first call to the end of the program.
  static ShelvesFirst& get() {
    static auto* const allocator = [] {
      auto* const made = new ShelvesFirst(c10::GetCPUAllocator());
      c10::SetCPUAllocator(made, /*priority=*/1);
      return made;
    }();
    return *allocator;
  }

  c10::DataPtr allocate(std::size_t bytes) const { return find(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return find(bytes); }
  c10::DeleterFnPtr raw_deleter() const override {
    return other_->raw_deleter() ? release : nullptr;
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }

 private:
  struct Block {
    std::shared_ptr<Shelf> shelf;
    std::size_t bytes;
    Shelf::Memory memory;
  };

  explicit ShelvesFirst(c10::Allocator* other) : other_(other) {}

  c10::DataPtr find(std::size_t bytes) const {
    if (!shelf_in_use) [[likely]]
      return other_->allocate(bytes);
    Shelf::Memory memory = shelf_in_use->take(bytes);
    if (!memory) return other_->allocate(bytes);
    void* const data = memory.get();
    const std::lock_guard lock(mutex_);
    blocks_[data] = {shelf_in_use->shared_from_this(), bytes,
                     std::move(memory)};
    return {data, data, release, c10::DeviceType::CPU};
  }

  static void release(void* data) {
    const ShelvesFirst& self = get();
    std::unique_lock lock(self.mutex_);
    const auto found = self.blocks_.find(data);
    if (found == self.blocks_.end()) {
      lock.unlock();
      return self.other_->raw_deleter()(data);
    }
    Block block = std::move(found->second);
    self.blocks_.erase(found);
    lock.unlock();
    block.shelf->give_back(block.bytes, std::move(block.memory));
  }

  c10::Allocator* const other_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<void*, Block> blocks_;
};

}  // namespace

GradientMemory::GradientMemory(const comm::Group& group,
                               const std::vector<std::size_t>& sizes)
    : shelf_(std::make_shared<Shelf>(group, sizes)) {
  ShelvesFirst::get();
}

GradientMemory::~GradientMemory() {
  if (shelf_in_use == shelf_.get()) leave();
}

void GradientMemory::enter() { shelf_in_use = shelf_.get(); }

void GradientMemory::leave() { shelf_in_use = nullptr; }

}  // namespace sheaf::parallel
