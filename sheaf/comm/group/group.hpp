#pragma once
// A group: a set of ranks that perform operations together.
//
// Ownership: Group is a handle. Copies refer to the same group, which is
// destroyed with its last handle, and keep the process's connections open.
// Wrappers, layers and operations in progress keep a copy, so that the program
// may drop its own. Threads: all functions may be called from any thread;
// split() and new_group() are collectives, see collectives.hpp for their order.

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sheaf::comm {

// An array in shared memory. SharedArray is a handle: copies refer to the same
// array, which is freed with its last handle.
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

class GroupCore;
class Runtime;

class Group {
 public:
  Group() = default;  // an empty handle: is_member() is false
  explicit Group(std::shared_ptr<GroupCore> core) : core_(std::move(core)) {}

  // False for the result of split() or new_group() on a rank that is not in the
  // new group. All other functions then throw UsageError.
  bool is_member() const { return core_ != nullptr; }

  int rank() const;
  int size() const;
  int id() const;
  // Position of this rank among the group's ranks on this host, their number,
  // and position of this host among the group's hosts.
  int local_rank() const;
  int local_size() const;
  int host_index() const;
  int host_count() const;
  std::string host_name() const;
  int world_rank(int rank) const;

  // Splits the group into one group per color. Ranks are ordered by key, then
  // by their rank in this group. A rank with a negative color is in no group.
  // All ranks of this group must call it.
  Group split(int color, int key = 0) const;
  // Makes a group of `ranks`, in that order. All ranks of this group must call
  // it with the same list, including those that are not in the list; otherwise
  // it throws UsageError.
  Group new_group(std::span<const int> ranks) const;
  Group new_group(std::initializer_list<int> ranks) const {
    return new_group(std::span(ranks.begin(), ranks.size()));
  }

  // Allocates memory that all ranks of this host can read, so that operations
  // on it need no copy. Not collective: each rank allocates independently. The
  // memory is freed with the last handle on it, which may outlive the group.
  template <class T>
  SharedArray<T> allocate(std::size_t count) const {
    return SharedArray<T>(allocate_bytes(count * sizeof(T)), count);
  }
  std::shared_ptr<std::byte> allocate_bytes(std::size_t bytes) const;

  // A patient group sleeps instead of polling while it waits. Use it for
  // exchanges that overlap computations which need all cores. Not collective:
  // affects this rank only.
  void set_patient(bool is_patient) const;

  // The last operations of this rank, oldest first, one per line.
  std::string recent_operations() const;

  GroupCore& core() const;

 private:
  std::shared_ptr<GroupCore> core_;
};

}  // namespace sheaf::comm
