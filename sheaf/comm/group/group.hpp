#pragma once
// A group: some ranks that do operations together. A handle; copies mean the
// same group. The group ends with its last handle.

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sheaf/comm/group/shared_array.hpp"

namespace sheaf::comm {

class GroupCore;
class Runtime;

class Group {
 public:
  Group() = default;  // of nobody: see is_member()
  explicit Group(std::shared_ptr<GroupCore> core) : core_(std::move(core)) {}

  // False for the result of split() or new_group() where this rank was left
  // out. Then nothing else may be called.
  bool is_member() const { return core_ != nullptr; }

  int rank() const;
  int size() const;
  int id() const;
  // Ranks and place among those of this host.
  int local_rank() const;
  int local_size() const;
  int host_index() const;
  int host_count() const;
  std::string host_name() const;
  int world_rank(int rank) const;

  // Cuts the group in one group per colour; ranks are ordered by key, then by
  // their rank here. A negative colour joins none. All ranks call it.
  Group split(int color, int key = 0) const;
  // The group of those ranks, in that order. All ranks of this group call it,
  // also those that are not in the list.
  Group new_group(std::span<const int> ranks) const;
  Group new_group(std::initializer_list<int> ranks) const {
    return new_group(std::span(ranks.begin(), ranks.size()));
  }

  // Memory that all ranks of this host can read: operations on it copy
  // nothing. Each rank allocates for itself; no rank needs to wait.
  template <class T>
  SharedArray<T> allocate(std::size_t count) const {
    return SharedArray<T>(allocate_bytes(count * sizeof(T)), count);
  }
  std::shared_ptr<std::byte> allocate_bytes(std::size_t bytes) const;

  // A patient group sleeps where others would poll: for exchanges beside
  // computations that want all cores. This rank's choice alone.
  void set_patient(bool is_patient) const;

  // The last operations of this rank, oldest first, one a line.
  std::string recent_operations() const;

  GroupCore& core() const;

 private:
  std::shared_ptr<GroupCore> core_;
};

}  // namespace sheaf::comm
