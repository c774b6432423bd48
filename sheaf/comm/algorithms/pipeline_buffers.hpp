#pragma once
// Where the data of a pipeline is: its segments, their chunks, and the memory
// of each member of the host for them. See pipeline.cpp for the terms.

#include <vector>

#include "sheaf/comm/choice/pipeline_plan.hpp"
#include "sheaf/comm/group/collective_call.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"

namespace sheaf::comm {

struct PipelineJob {
  Flow flow = Flow::kAllReduce;
  int root = 0;                      // of reduce and broadcast
  const std::byte* input = nullptr;  // null if this rank has none
  std::byte* output = nullptr;       // null if this rank has none; the root of
                                     // a broadcast passes its buffer as both
  std::size_t count = 0;
  Reduction reduction;  // with the divisor of the whole average
};

class PipelineBuffers {
 public:
  static constexpr std::size_t kWindow = kStageSlots;  // segments in progress

  // All members must have arrived with their SharedBuffers. `job` and
  // `host_map` must outlive this object.
  PipelineBuffers(CollectiveCall& call, const PipelineJob& job,
                  const PipelinePlan& plan, const HostMap& host_map);

  // Whether data passes through staging buffers, because some member has a
  // buffer that the others cannot access.
  bool is_staged() const { return is_staged_; }
  bool is_source(int member) const;  // whether it has input
  bool is_target(int member) const;  // whether it gets the result

  std::size_t segments() const { return segments_; }
  Range chunk_of(std::size_t segment, int lane) const;
  std::size_t bytes(Range range) const { return range.count * element_; }

  const std::byte* input(Range range) const;  // of this rank
  std::byte* output(Range range) const;       // of this rank
  // The address from which an owner reads the input of a member.
  const std::byte* source(int member, std::size_t segment, Range range) const;
  // The address to which an owner writes the result for a member.
  std::byte* target(int member, std::size_t segment, Range range) const;
  // This rank's staging buffer.
  std::byte* staging(std::size_t segment, Range range) const {
    return staging(me_, segment, range);
  }
  // The address where this rank collects and exchanges a range that it owns.
  std::byte* work(std::size_t segment, Range range);

 private:
  struct MemberBuffers {  // null if this rank cannot access them
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
  };

  MemberBuffers buffers_of(CollectiveCall& call, int member) const;
  bool needs_staging(const HostMemory& memory) const;
  void divide(std::size_t segment_bytes);
  std::byte* staging(int member, std::size_t segment, Range range) const;
  // The position of a range in its segment.
  std::size_t offset(std::size_t segment, Range range) const {
    return (range.begin - segment * segment_elements_) * element_;
  }

  const PipelineJob& job_;
  const LocalGroup& local_;
  const std::size_t lanes_;
  const int me_;
  const bool has_network_;
  const std::size_t element_;
  int root_member_ = -1;  // -1 if the root is on another host
  std::vector<MemberBuffers> members_;
  bool is_staged_ = false;
  std::size_t segments_ = 0;
  std::size_t segment_elements_ = 0;
  std::vector<std::byte> scratch_;  // for work, if this rank has no output
};

}  // namespace sheaf::comm
