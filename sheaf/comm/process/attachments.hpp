#pragma once
// Objects of higher layers that live as long as a group or the runtime.

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

namespace sheaf::comm {

// An object that a higher layer stores in a group or in the runtime, such as a
// tuner or a communicator of another library. Each derived class has its own
// slot (kSlot).
class Attachment {
 public:
  enum Slot { kTuner, kIterationStats, kDeviceGroup, kDeviceBackend, kSlots };
  virtual ~Attachment() = default;
};

// The attachments of one owner. Each is constructed on first use and destroyed
// with the owner. Thread-safe.
class Attachments {
 public:
  // The attachment in slot T::kSlot; the first call constructs it from the
  // arguments.
  template <class T, class... Arguments>
  T& get(Arguments&&... arguments) {
    Holder& holder = holders_[T::kSlot];
    Attachment* found = holder.ready.load(std::memory_order_acquire);
    if (!found) {
      const std::lock_guard lock(holder.mutex);
      if (!holder.owner)
        holder.owner =
            std::make_unique<T>(std::forward<Arguments>(arguments)...);
      found = holder.owner.get();
      holder.ready.store(found, std::memory_order_release);
    }
    return static_cast<T&>(*found);
  }

 private:
  struct Holder {
    std::mutex mutex;
    std::unique_ptr<Attachment> owner;
    std::atomic<Attachment*> ready{nullptr};
  };
  std::array<Holder, Attachment::kSlots> holders_;
};

}  // namespace sheaf::comm
