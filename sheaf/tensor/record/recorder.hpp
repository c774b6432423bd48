#pragma once
// Records libtorch's activity on all threads: operators, autograd nodes, named
// scopes and allocations, and the collectives of groups.

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "sheaf/base/dtype.hpp"

namespace sheaf::tensor {

enum class EventKind : std::uint8_t {
  kOperator,    // an operator of libtorch
  kBackward,    // an autograd node
  kScope,       // a named scope; see scope.hpp
  kCollective,  // a collective of a group
};

struct RecordedEvent {
  std::int64_t begin_ns = 0;  // on the steady clock
  std::int64_t end_ns = -1;   // -1: not ended when the recording stopped
  std::int64_t sequence = -1;
  std::uint64_t forward_thread = 0;  // libtorch's thread id; 0: none
  std::uint32_t name = 0;            // index in RecordedThread::names
  std::int32_t detail = -1;          // index in `sizes` or `collectives`
  EventKind kind = EventKind::kOperator;
};

struct RecordedAllocation {
  std::int64_t at_ns = 0;
  std::uint64_t address = 0;
  std::int64_t bytes = 0;  // negative: freed
  std::int64_t total = 0;  // bytes in use on the device afterwards
  int device_type = 0;
  int device = 0;
};

struct RecordedCollective {
  std::int64_t elements = 0;  // 0: the count may differ between ranks
  std::int64_t bytes = 0;
  DType dtype = DType::kU8;
  int ranks = 0;
};

// The recording of one thread, in order of start times.
struct RecordedThread {
  std::int64_t system_id = 0;
  std::vector<RecordedEvent> events;
  std::vector<RecordedAllocation> allocations;
  std::vector<RecordedCollective> collectives;
  std::vector<std::string> names;
  // Input sizes of events: the number of inputs, then for each input its number
  // of axes and their sizes. -1 axes: not a tensor; -2 - n: a list of n
  // tensors, which follow.
  std::vector<std::int64_t> sizes;
};

struct RecorderOptions {
  bool has_operators = true;  // false: scopes and collectives only
  bool has_sizes = true;      // record the sizes of operators' inputs
};

// Records from its construction to stop(). At most one per process; a second
// one is a UsageError. An operator still running on another thread at stop()
// has no end time.
class Recorder {
 public:
  explicit Recorder(const RecorderOptions& options = {});
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void stop();

  // The result, valid after stop(). Threads are in the order of their first
  // event.
  const std::vector<const RecordedThread*>& threads() const { return threads_; }

  // Records an allocation of this thread if a Recorder is active.
  static void note(const RecordedAllocation& allocation);

 private:
  std::uint64_t handle_ = 0;
  bool is_on_ = true;
  std::vector<std::shared_ptr<const RecordedThread>> logs_;  // owns threads_
  std::vector<const RecordedThread*> threads_;
};

}  // namespace sheaf::tensor
