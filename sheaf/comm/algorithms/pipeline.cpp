// Terms. The buffer is divided into *segments*; one round of the pipeline
// carries one segment. A *lane* is a share of a host's traffic with other
// hosts. There are as many lanes as the largest host has ranks (or one), and
// lane l belongs to member l modulo the host's size, its owner. A segment is
// divided into *chunks*, one per lane. A *staging buffer* is a member's memory
// for one segment, which all members of the host can access.
//
// Each segment passes through five stages. Several segments are in progress at
// once, so that hosts compute while data is in transit:
//   stage    copy the input to this rank's staging buffer
//   collect  the owner of a lane reduces its chunk over the host's members
//   exchange the owners of the lane on all hosts run a schedule
//   deliver  the owner writes the chunk to the staging buffer of every member
//   take     members copy their staging buffer to their output
// Buffers in the arena need no staging buffers: nothing is staged or taken.
//
// The result overwrites the input, because those cache lines have just been
// loaded by the owner. Separate buffers for the result would first have to
// be evicted from the caches of their readers, which was half as fast in
// measurements.
//
// Sums, averages and products of 16-bit floats stay in f32 from collect until
// the end of the exchange, where they are rounded once: a partial sum may
// exceed the range of f16, or cancel, even if the result does not.
//
// Members synchronize by counters. A broadcast has one source and no
// reduction; a reduce has one target.
//
// Bytes inside a host, per rank and S bytes of buffer: in the arena S read and
// S written; otherwise 2(1 - 1/p) S more, through staging buffers that stay in
// cache.

#include "sheaf/comm/algorithms/pipeline.hpp"

#include <algorithm>
#include <cstring>

namespace sheaf::comm {
namespace {

Counter& ready(Progress& progress) { return progress.ready; }
Counter& staged(Progress& progress) { return progress.staged; }

}  // namespace

Pipeline::Pipeline(CollectiveCall& call, const PipelineJob& job,
                   const PipelinePlan& plan)
    : call_(call),
      job_(job),
      plan_(plan),
      flat_(plan.is_flat ? flat_host_map(call.host_map()) : HostMap{}),
      host_map_(plan.is_flat ? flat_ : call.host_map()),
      local_(call.local()),
      size_(host_map_.local_count()),
      me_(host_map_.local),
      element_(size_of(job.reduction.dtype)),
      base_(call.group().segments()) {
  const auto root = static_cast<std::size_t>(job.root);
  if (host_map_.host_of[root] == host_map_.host)
    root_member_ = host_map_.local_of[root];
  find_buffers();
  is_staged_ = needs_staging();
  is_wide_ = has_network() && job.flow != Flow::kBroadcast &&
             has_wide_partials(job.reduction);
  const bool is_one_segment = !is_staged_ && !has_network();
  // The same on all hosts, whether they stage or not.
  const std::size_t segment_bytes =
      std::min(plan.segment_bytes, kMaxSegmentBytes);
  segment_elements_ = is_one_segment
                          ? job.count
                          : std::max<std::size_t>(1, segment_bytes / element_);
  segments_ = job.count == 0 ? 0
              : is_one_segment
                  ? 1
                  : (job.count + segment_elements_ - 1) / segment_elements_;
  for (int lane = 0; has_network() && lane < plan.lanes; ++lane) {
    auto& peers = lane_peers_.emplace_back();
    for (const auto& members : host_map_.hosts)
      peers.push_back(call.group().world_rank(
          members[static_cast<std::size_t>(lane) % members.size()]));
  }
  if (has_network() && owns_lanes(me_) && !job.output)
    scratch_.resize(kWindow * segment_elements_ * element_);
  under_way_.resize(kWindow);
}

void Pipeline::find_buffers() {
  for (int member = 0; member < size_; ++member) {
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    if (member == me_) {
      input = job_.input;
      output = job_.output;
    } else {
      SharedBuffers theirs;
      std::memcpy(&theirs, call_.payload(member, sizeof theirs), sizeof theirs);
      std::byte* heap = call_.heap_of(member);
      if (theirs.input != SharedBuffers::kNotShared)
        input = heap + theirs.input;
      if (theirs.output != SharedBuffers::kNotShared)
        output = heap + theirs.output;
    }
    inputs_.push_back(input);
    outputs_.push_back(output);
  }
}

bool Pipeline::needs_staging() const {
  if (size_ == 1) return false;
  HostMemory& memory = call_.group().runtime().memory();
  // All members must get the same answer, so this rank's own buffers are
  // treated as its peers see them.
  const auto mine =
      memory.shared(job_.input, job_.output, job_.count * element_);
  for (int member = 0; member < size_; ++member) {
    const auto index = static_cast<std::size_t>(member);
    const bool has_input = member == me_
                               ? mine.input != SharedBuffers::kNotShared
                               : inputs_[index] != nullptr;
    const bool has_output = member == me_
                                ? mine.output != SharedBuffers::kNotShared
                                : outputs_[index] != nullptr;
    if (is_source(member) && !has_input) return true;
    if (is_target(member) && !has_output) return true;
  }
  return false;
}

PipelineTimes Pipeline::run() {
  while (next_deliver_ < segments_ || next_take_ < segments_) {
    if (step()) {
      call_.progress();
    } else if (next_collect_ > next_deliver_) {
      call_.idle();  // messages are in transit: the transport must be polled
    } else {
      wait_for_local();
    }
  }
  // A buffer in the arena must not be accessed before all members are done.
  if (!is_staged_ && size_ > 1) wait_for_others(ready, count_at(segments_));
  // Unused counters must advance, too, since they are compared by distance.
  Progress& mine = progress(me_);
  for (Counter* counter : {&mine.staged, &mine.ready, &mine.taken})
    counter->value.store(count_at(segments_), std::memory_order_release);
  call_.group().add_segments(static_cast<std::uint32_t>(segments_));
  return times_;
}

// One round: advances every stage that can make progress.
bool Pipeline::step() {
  bool has_moved = false;
  if (can_stage()) {
    stage(next_stage_++);
    has_moved = true;
  }
  if (can_collect()) {
    collect(next_collect_++);
    has_moved = true;
  }
  if (advance_tasks()) has_moved = true;
  if (next_deliver_ < next_collect_ && is_exchanged(next_deliver_)) {
    deliver(next_deliver_++);
    has_moved = true;
  }
  if (can_take()) {
    take(next_take_++);
    has_moved = true;
  }
  return has_moved;
}

// Sleeps until another member of the host makes progress.
void Pipeline::wait_for_local() {
  if (next_collect_ < next_stage_)
    wait_for_others(staged, count_at(next_collect_ + 1));
  else
    wait_for_others(ready, count_at(next_take_ + 1));
}

// A staging buffer is free when its last result was taken. Then all owners are
// ready, so no member reads the last input any more.
bool Pipeline::can_stage() const {
  return next_stage_ < segments_ &&
         (!is_staged_ || next_stage_ < next_take_ + kWindow);
}

bool Pipeline::can_collect() const {
  if (next_collect_ == next_stage_) return false;
  if (next_collect_ >= next_deliver_ + kWindow) return false;
  return !is_staged_ || others_reached(staged, count_at(next_collect_ + 1));
}

bool Pipeline::can_take() const {
  if (next_take_ >= next_deliver_) return false;
  return !is_staged_ || others_reached(ready, count_at(next_take_ + 1));
}

Progress& Pipeline::progress(int member) const {
  return local_.progress(plan_.is_flat ? local_.me() : member);
}

template <class Pick>
bool Pipeline::others_reached(Pick pick, std::uint32_t target) const {
  for (int member = 0; member < size_; ++member)
    if (member != me_ && !pick(progress(member)).has_reached(target))
      return false;
  return true;
}

template <class Pick>
void Pipeline::wait_for_others(Pick pick, std::uint32_t target) {
  for (int member = 0; member < size_; ++member)
    if (member != me_)
      call_.wait(pick(progress(member)), progress(member).sleepers, target);
}

}  // namespace sheaf::comm
