#pragma once
// An array in shared memory. SharedArray is a handle: copies refer to the same
// array, which is freed with its last handle.

#include <cstddef>
#include <memory>

namespace sheaf::comm {

template <class T>
class SharedArray {
 public:
  using value_type = T;

  SharedArray() = default;
  SharedArray(std::shared_ptr<std::byte> memory, std::size_t count)
      : memory_(std::move(memory)), count_(count) {}

  T* data() const { return reinterpret_cast<T*>(memory_.get()); }
  std::size_t size() const { return count_; }
  T* begin() const { return data(); }
  T* end() const { return data() + count_; }
  T& operator[](std::size_t index) const { return data()[index]; }

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t count_ = 0;
};

}  // namespace sheaf::comm
