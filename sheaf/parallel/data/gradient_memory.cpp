#include "sheaf/parallel/data/gradient_memory.hpp"

#include <map>
#include <mutex>

#include "sheaf/base/error.hpp"

namespace sheaf::parallel {

// Free blocks by size. Blocks in use keep this object alive.
class GradientMemory::Shelf : public tensor::MemorySource,
                              public std::enable_shared_from_this<Shelf> {
 public:
  Shelf(const comm::Group& group, const std::vector<std::size_t>& sizes)
      : group_(group) {
    for (const std::size_t size : sizes) ++stocks_[size].most;
  }

  Memory take(std::size_t bytes) override {
    const auto found = stocks_.find(bytes);
    if (found == stocks_.end()) return {};
    Memory memory = take_from(found->second);
    if (!memory) memory = allocate(bytes);
    if (!memory) return {};
    std::byte* const data = memory.get();
    return {data, [shelf = shared_from_this(), bytes,
                   memory = std::move(memory)](std::byte*) mutable {
              shelf->give_back(bytes, std::move(memory));
            }};
  }

 private:
  struct Stock {
    // Maximum number of free blocks: one per parameter, and a spare.
    std::size_t most = 1;
    std::vector<Memory> free{};
  };

  // Returns null if the arena is full; ordinary memory is used then.
  Memory allocate(std::size_t bytes) const {
    try {
      return group_.allocate_bytes(bytes);
    } catch (const UsageError&) {
      return {};
    }
  }
  Memory take_from(Stock& stock) {
    const std::lock_guard lock(mutex_);
    if (stock.free.empty()) return {};
    Memory memory = std::move(stock.free.back());
    stock.free.pop_back();
    return memory;
  }
  void give_back(std::size_t bytes, Memory memory) {
    Stock& stock = stocks_.at(bytes);
    const std::lock_guard lock(mutex_);
    if (stock.free.size() < stock.most) stock.free.push_back(std::move(memory));
  }

  const comm::Group group_;
  std::mutex mutex_;
  std::map<std::size_t, Stock> stocks_;
};

GradientMemory::GradientMemory(const comm::Group& group,
                               const std::vector<std::size_t>& sizes)
    : shelf_(std::make_shared<Shelf>(group, sizes)),
      id_(tensor::add_source(shelf_)) {}

GradientMemory::~GradientMemory() {
  if (tensor::source_in_use(tensor::SourceKind::kGradients) == id_) leave();
}

void GradientMemory::enter() {
  tensor::use_source(tensor::SourceKind::kGradients, id_);
}

void GradientMemory::leave() {
  tensor::use_source(tensor::SourceKind::kGradients, 0);
}

}  // namespace sheaf::parallel
