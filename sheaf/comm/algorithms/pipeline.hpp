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
  Pipeline(Call& call, const PipelineJob& job, const PipelinePlan& plan);
  PipelineTimes run();

 private:
  static constexpr std::size_t kWindow = kStageSlots;  // pieces in progress

  struct Piece {
    std::vector<LaneTask> tasks;
  };

  void find_buffers();
  bool needs_staging() const;
  bool step();
  void wait_for_local();

  bool can_stage() const;
  bool can_collect() const;
  bool can_take() const;
  void stage(std::size_t piece);
  void collect(std::size_t piece);
  void collect_lane(std::size_t piece, int lane, float* partials);
  void start_task(std::size_t piece, int lane,
                  std::unique_ptr<float[]> partials);
  bool advance_tasks();
  void note_tiers();
  bool is_exchanged(std::size_t piece) const;
  void deliver(std::size_t piece);
  void take(std::size_t piece);

  Range piece_range(std::size_t piece) const;
  Range lane_range(std::size_t piece, int lane) const;
  int owner(int lane) const { return lane % size_; }
  bool owns_lanes(int member) const { return member < plan_.lanes; }
  bool has_network() const { return layout_.host_count() > 1; }
  bool is_source(int member) const;
  bool is_target(int member) const;
  bool is_mine(int lane) const { return owner(lane) == me_; }
  std::byte* work(std::size_t piece, Range range);
  std::byte* place_for(int member, std::size_t piece, Range range) const;
  Schedule schedule(Range range) const;
  Progress& progress(int member) const;
  template <class Pick>
  bool others_reached(Pick pick, std::uint32_t target) const;
  template <class Pick>
  void wait_for_others(Pick pick, std::uint32_t target);
  std::uint32_t count_at(std::size_t pieces) const {
    return base_ + static_cast<std::uint32_t>(pieces);
  }
  std::size_t bytes(Range range) const { return range.count * element_; }

  Call& call_;
  const PipelineJob& job_;
  const PipelinePlan& plan_;
  const Layout flat_;
  const Layout& layout_;
  LocalGroup& local_;
  const int size_;  // members of this host
  const int me_;
  const std::size_t element_;
  const std::uint32_t base_;
  bool is_staged_ = false;
  bool is_wide_ = false;  // sums between hosts are in f32 until finished
  int root_member_ = -1;  // -1 if the root is on another host
  std::size_t pieces_ = 0;
  std::size_t piece_elements_ = 0;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::vector<std::vector<int>> lane_peers_;
  std::vector<std::byte> scratch_;

  std::size_t next_stage_ = 0;
  std::size_t next_collect_ = 0;
  std::size_t next_deliver_ = 0;
  std::size_t next_take_ = 0;
  std::vector<Piece> under_way_;  // by piece, modulo the window
  PipelineTimes times_;
  std::bitset<topo::kMaxDims> busy_tiers_;  // since noted_ns_
  std::int64_t noted_ns_ = 0;
};

}  // namespace sheaf::comm
