#pragma once
// The common implementation of all-reduce, reduce and broadcast: collect,
// exchange, deliver.

#include "sheaf/comm/algorithms/lane_exchange.hpp"
#include "sheaf/comm/algorithms/pipeline_buffers.hpp"

namespace sheaf::comm {

class Pipeline {
 public:
  // All ranks must have arrived with their SharedBuffers. The arguments must
  // outlive this object.
  Pipeline(CollectiveCall& call, const PipelineJob& job,
           const PipelinePlan& plan);
  PipelineTimes run();

 private:
  // The next segment of each stage.
  struct NextSegments {
    std::size_t stage = 0;
    std::size_t collect = 0;
    std::size_t deliver = 0;
    std::size_t take = 0;
  };

  bool step();
  void wait_for_local();

  bool can_stage() const;
  bool can_collect() const;
  bool can_deliver() const;
  bool can_take() const;
  void stage(std::size_t segment);
  void collect(std::size_t segment);
  void collect_lane(std::size_t segment, int lane, float* partials);
  void deliver(std::size_t segment);
  void take(std::size_t segment);

  int size() const { return host_map_.local_count(); }  // members of this host
  int me() const { return host_map_.local; }
  bool is_mine(int lane) const { return lane % size() == me(); }
  bool has_network() const { return host_map_.host_count() > 1; }
  bool has_wide_partials() const;
  Progress& progress(int member) const;
  template <class Pick>
  bool others_reached(Pick pick, std::uint32_t target) const;
  template <class Pick>
  void wait_for_others(Pick pick, std::uint32_t target);
  std::uint32_t count_at(std::size_t segments) const {
    return base_ + static_cast<std::uint32_t>(segments);
  }

  CollectiveCall& call_;
  const PipelineJob& job_;
  const PipelinePlan& plan_;
  const HostMap flat_;
  const HostMap& host_map_;
  const std::uint32_t base_;  // the group's count of segments at the start
  PipelineTimes times_;
  PipelineBuffers buffers_;
  LaneExchange exchange_;
  NextSegments next_;
};

}  // namespace sheaf::comm
