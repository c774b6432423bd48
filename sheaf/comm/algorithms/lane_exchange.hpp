#pragma once
// The exchange stage of a pipeline: the messages between hosts for all segments
// in progress. See pipeline.cpp for the terms.

#include <bitset>
#include <memory>
#include <vector>

#include "sheaf/comm/algorithms/lane_task.hpp"
#include "sheaf/comm/algorithms/pipeline_buffers.hpp"

namespace sheaf::comm {

class LaneExchange {
 public:
  // The arguments must outlive this object. `times` gets the time in which
  // messages were in transit.
  LaneExchange(CollectiveCall& call, const PipelineJob& job,
               const PipelinePlan& plan, const HostMap& host_map,
               PipelineTimes& times);

  // Starts the schedule of a chunk whose lane this rank owns. `data` and
  // `partials` are those of LaneTask.
  void start(std::size_t segment, int lane, Range chunk, std::byte* data,
             std::unique_ptr<float[]> partials);
  // Makes all possible progress with the segments from `first` to before
  // `last`. Returns whether there was any.
  bool advance(std::size_t first, std::size_t last);
  bool is_complete(std::size_t segment) const;
  void end(std::size_t segment) { tasks_of(segment).clear(); }

 private:
  using Tasks = std::vector<LaneTask>;

  Schedule schedule(Range range) const;
  void note_tiers();
  Tasks& tasks_of(std::size_t segment) {
    return tasks_[segment % PipelineBuffers::kWindow];
  }

  CollectiveCall& call_;
  const PipelineJob& job_;
  const PipelinePlan& plan_;
  const HostMap& host_map_;
  PipelineTimes& times_;
  std::vector<std::vector<int>> peers_;     // by lane and host
  std::vector<Tasks> tasks_;                // by segment, modulo the window
  std::bitset<topo::kMaxDims> busy_tiers_;  // since noted_ns_
  std::int64_t noted_ns_ = 0;
};

}  // namespace sheaf::comm
