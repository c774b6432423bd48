#pragma once
// The common implementation of all-reduce, reduce and broadcast: collect,
// exchange, deliver.

#include <array>
#include <bitset>
#include <vector>

#include "sheaf/comm/algorithms/lane_task.hpp"
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

class Pipeline {
 public:
  // All ranks must have arrived with their SharedBuffers.
  Pipeline(CollectiveCall& call, const PipelineJob& job,
           const PipelinePlan& plan);
  PipelineTimes run();

 private:
  static constexpr std::size_t kWindow = kStageSlots;  // segments in progress

  struct ActiveSegment {
    std::vector<LaneTask> tasks;
  };

  void find_buffers();
  bool needs_staging() const;
  bool step();
  void wait_for_local();

  bool can_stage() const;
  bool can_collect() const;
  bool can_take() const;
  void stage(std::size_t segment);
  void collect(std::size_t segment);
  void collect_lane(std::size_t segment, int lane, float* partials);
  void start_task(std::size_t segment, int lane,
                  std::unique_ptr<float[]> partials);
  bool advance_tasks();
  void note_tiers();
  bool is_exchanged(std::size_t segment) const;
  void deliver(std::size_t segment);
  void take(std::size_t segment);

  Range segment_range(std::size_t segment) const;
  Range chunk_of(std::size_t segment, int lane) const;
  int owner(int lane) const { return lane % size_; }
  bool owns_lanes(int member) const { return member < plan_.lanes; }
  bool has_network() const { return host_map_.host_count() > 1; }
  bool is_source(int member) const;
  bool is_target(int member) const;
  bool is_mine(int lane) const { return owner(lane) == me_; }
  std::byte* work(std::size_t segment, Range range);
  std::byte* buffer_for(int member, std::size_t segment, Range range) const;
  Schedule schedule(Range range) const;
  Progress& progress(int member) const;
  template <class Pick>
  bool others_reached(Pick pick, std::uint32_t target) const;
  template <class Pick>
  void wait_for_others(Pick pick, std::uint32_t target);
  std::uint32_t count_at(std::size_t segments) const {
    return base_ + static_cast<std::uint32_t>(segments);
  }
  std::size_t bytes(Range range) const { return range.count * element_; }

  CollectiveCall& call_;
  const PipelineJob& job_;
  const PipelinePlan& plan_;
  const HostMap flat_;
  const HostMap& host_map_;
  LocalGroup& local_;
  const int size_;  // members of this host
  const int me_;
  const std::size_t element_;
  const std::uint32_t base_;
  bool is_staged_ = false;
  bool is_wide_ = false;  // sums between hosts are in f32 until finished
  int root_member_ = -1;  // -1 if the root is on another host
  std::size_t segments_ = 0;
  std::size_t segment_elements_ = 0;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::vector<std::vector<int>> lane_peers_;
  std::vector<std::byte> scratch_;

  std::size_t next_stage_ = 0;
  std::size_t next_collect_ = 0;
  std::size_t next_deliver_ = 0;
  std::size_t next_take_ = 0;
  std::vector<ActiveSegment> under_way_;  // by segment, modulo the window
  PipelineTimes times_;
  std::bitset<topo::kMaxDims> busy_tiers_;  // since noted_ns_
  std::int64_t noted_ns_ = 0;
};

}  // namespace sheaf::comm
