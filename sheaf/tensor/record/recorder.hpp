#pragma once
// What libtorch does, as it happens: operators of all threads, what autograd
// evaluates, named scopes, allocations, and the collectives of groups.

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "sheaf/base/dtype.hpp"

namespace sheaf::tensor {

enum class EventKind : std::uint8_t {
  kOperator,    // of libtorch
  kBackward,    // a node that autograd calls
  kScope,       // scope.hpp
  kCollective,  // of a group
};

struct RecordedEvent {
  std::int64_t begin_ns = 0;  // of the steady clock
  std::int64_t end_ns = -1;   // -1: it had not ended
  std::int64_t sequence = -1;
  std::uint64_t forward_thread = 0;  // libtorch's number; 0: none
  std::uint32_t name = 0;            // in RecordedThread::names
  std::int32_t detail = -1;          // in `sizes`, or in `collectives`
  EventKind kind = EventKind::kOperator;
};

struct RecordedAllocation {
  std::int64_t at_ns = 0;
  std::uint64_t address = 0;
  std::int64_t bytes = 0;  // negative: freed
  std::int64_t total = 0;  // of the device, afterwards
  int device_type = 0;
  int device = 0;
};

struct RecordedCollective {
  std::int64_t elements = 0;  // 0: ranks may differ
  std::int64_t bytes = 0;
  DType dtype = DType::kU8;
  int ranks = 0;
};

// Of one thread, in the order in which things began.
struct RecordedThread {
  std::int64_t system_id = 0;
  std::vector<RecordedEvent> events;
  std::vector<RecordedAllocation> allocations;
  std::vector<RecordedCollective> collectives;
  std::vector<std::string> names;
  // Of an event's inputs: how many, and for each its axes and their sizes; -1
  // axes: no tensor; -2 - n: a list of n tensors, which follow.
  std::vector<std::int64_t> sizes;
};

struct RecorderOptions {
  bool has_operators = true;  // else only scopes and collectives
  bool has_sizes = true;      // of the operators' inputs
};

// Records from its construction to stop(). One at a time in a process: a second
// one is a UsageError. An operator that is under way on another thread at
// stop() has no end.
class Recorder {
 public:
  explicit Recorder(const RecorderOptions& options = {});
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void stop();

  // After stop(). Threads come in the order of their first event.
  const std::vector<const RecordedThread*>& threads() const { return threads_; }

  // Notes an allocation of this thread, if something records.
  static void note(const RecordedAllocation& allocation);

 private:
  std::uint64_t handle_ = 0;
  bool is_on_ = true;
  std::vector<std::shared_ptr<void>> logs_;
  std::vector<const RecordedThread*> threads_;
};

}  // namespace sheaf::tensor
