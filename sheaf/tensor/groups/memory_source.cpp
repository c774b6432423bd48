#include "sheaf/tensor/groups/memory_source.hpp"

#include <c10/core/CPUAllocator.h>

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace sheaf::tensor {
namespace {

// Ids rather than pointers: a thread may still refer to a source that another
// thread has destroyed.
thread_local std::array<SourceId, 2> sources_in_use{};

// An allocator in front of libtorch's. Some callers free raw addresses, so
// blocks are looked up by address.
//
// The interface differs between versions of libtorch: each has one of the two
// allocate() as a virtual function.
class SourcesFirst final : public c10::Allocator {
 public:
  // Never destroyed.
  static SourcesFirst& get() {
    static auto* const allocator = new SourcesFirst;
    return *allocator;
  }

  // The first call installs this allocator.
  SourceId add(const std::shared_ptr<MemorySource>& source) {
    const std::lock_guard lock(mutex_);
    if (!other_.load()) {
      other_.store(c10::GetCPUAllocator());
      c10::SetCPUAllocator(this, /*priority=*/1);
    }
    std::erase_if(sources_, [](const auto& it) { return it.second.expired(); });
    sources_[++last_id_] = source;
    return last_id_;
  }

  static bool has_made(const c10::DataPtr& data) {
    return data.get_deleter() == release;
  }

  c10::DataPtr allocate(std::size_t bytes) const { return find(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return find(bytes); }
  c10::DeleterFnPtr raw_deleter() const override {
    return other_.load()->raw_deleter() ? release : nullptr;
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }

 private:
  using Memory = MemorySource::Memory;

  SourcesFirst() = default;

  c10::DataPtr find(std::size_t bytes) const {
    for (const SourceId id : sources_in_use)
      if (id != 0) [[unlikely]]
        if (Memory memory = take(id, bytes))
          return keep(std::move(memory), bytes);
    return other_.load()->allocate(bytes);
  }
  Memory take(SourceId id, std::size_t bytes) const {
    std::unique_lock lock(mutex_);
    const auto found = sources_.find(id);
    if (found == sources_.end()) return {};
    const auto source = found->second.lock();
    lock.unlock();
    return source && bytes > 0 ? source->take(bytes) : Memory();
  }
  // Reports the block to profilers like other memory.
  c10::DataPtr keep(Memory memory, std::size_t bytes) const {
    void* const data = memory.get();
    c10::profiledCPUMemoryReporter().New(data, bytes);
    const std::lock_guard lock(mutex_);
    blocks_[data] = std::move(memory);
    return {data, data, release, c10::DeviceType::CPU};
  }
  static void release(void* data) {
    const SourcesFirst& self = get();
    std::unique_lock lock(self.mutex_);
    const auto found = self.blocks_.find(data);
    if (found == self.blocks_.end()) {
      lock.unlock();
      return self.other_.load()->raw_deleter()(data);
    }
    // Destroyed without the lock.
    const Memory memory = std::move(found->second);
    self.blocks_.erase(found);
    lock.unlock();
    c10::profiledCPUMemoryReporter().Delete(data);
  }

  std::atomic<c10::Allocator*> other_ = nullptr;  // libtorch's own
  mutable std::mutex mutex_;
  SourceId last_id_ = 0;
  std::map<SourceId, std::weak_ptr<MemorySource>> sources_;
  mutable std::unordered_map<void*, Memory> blocks_;
};

// Constructed before threads start: libtorch publishes its allocator's address
// without memory ordering.
[[maybe_unused]] const SourcesFirst& made_at_start = SourcesFirst::get();

}  // namespace

SourceId add_source(const std::shared_ptr<MemorySource>& source) {
  return SourcesFirst::get().add(source);
}

SourceId use_source(SourceKind kind, SourceId id) {
  return std::exchange(sources_in_use[static_cast<std::size_t>(kind)], id);
}

SourceId source_in_use(SourceKind kind) {
  return sources_in_use[static_cast<std::size_t>(kind)];
}

bool is_from_source(const at::Tensor& tensor) {
  return tensor.has_storage() &&
         SourcesFirst::has_made(tensor.storage().data_ptr());
}

}  // namespace sheaf::tensor
