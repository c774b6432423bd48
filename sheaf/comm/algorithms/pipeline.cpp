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

#include <cstring>

namespace sheaf::comm {
namespace {

Counter& ready(Progress& progress) { return progress.ready; }
Counter& staged(Progress& progress) { return progress.staged; }

class AddTime {
 public:
  explicit AddTime(std::int64_t& total) : total_(total), start_(now_ns()) {}
  ~AddTime() { total_ += now_ns() - start_; }
  AddTime(const AddTime&) = delete;
  AddTime& operator=(const AddTime&) = delete;

 private:
  std::int64_t& total_;
  std::int64_t start_;
};

}  // namespace

Pipeline::Pipeline(CollectiveCall& call, const PipelineJob& job,
                   const PipelinePlan& plan)
    : call_(call),
      job_(job),
      plan_(plan),
      flat_(plan.is_flat ? flat_host_map(call.host_map()) : HostMap{}),
      host_map_(plan.is_flat ? flat_ : call.host_map()),
      base_(call.group().segments()),
      buffers_(call, job, plan, host_map_),
      exchange_(call, job, plan, host_map_, times_) {}

PipelineTimes Pipeline::run() {
  const std::size_t segments = buffers_.segments();
  while (next_.deliver < segments || next_.take < segments) {
    if (step()) {
      call_.progress();
    } else if (next_.collect > next_.deliver) {
      call_.idle();  // messages are in transit: the transport must be polled
    } else {
      wait_for_local();
    }
  }
  // A buffer in the arena must not be accessed before all members are done.
  if (!buffers_.is_staged() && size() > 1)
    wait_for_others(ready, count_at(segments));
  // Unused counters must advance, too, since they are compared by distance.
  Progress& mine = progress(me());
  for (Counter* counter : {&mine.staged, &mine.ready, &mine.taken})
    counter->value.store(count_at(segments), std::memory_order_release);
  call_.group().add_segments(static_cast<std::uint32_t>(segments));
  return times_;
}

// One round: advances every stage that can make progress.
bool Pipeline::step() {
  bool has_moved = false;
  if (can_stage()) {
    stage(next_.stage++);
    has_moved = true;
  }
  if (can_collect()) {
    collect(next_.collect++);
    has_moved = true;
  }
  if (exchange_.advance(next_.deliver, next_.collect)) has_moved = true;
  if (can_deliver()) {
    deliver(next_.deliver++);
    has_moved = true;
  }
  if (can_take()) {
    take(next_.take++);
    has_moved = true;
  }
  return has_moved;
}

// Sleeps until another member of the host makes progress.
void Pipeline::wait_for_local() {
  if (next_.collect < next_.stage)
    wait_for_others(staged, count_at(next_.collect + 1));
  else
    wait_for_others(ready, count_at(next_.take + 1));
}

// A staging buffer is free when its last result was taken. Then all owners are
// ready, so no member reads the last input any more.
bool Pipeline::can_stage() const {
  return next_.stage < buffers_.segments() &&
         (!buffers_.is_staged() ||
          next_.stage < next_.take + PipelineBuffers::kWindow);
}

bool Pipeline::can_collect() const {
  if (next_.collect == next_.stage) return false;
  if (next_.collect >= next_.deliver + PipelineBuffers::kWindow) return false;
  return !buffers_.is_staged() ||
         others_reached(staged, count_at(next_.collect + 1));
}

bool Pipeline::can_deliver() const {
  return next_.deliver < next_.collect && exchange_.is_complete(next_.deliver);
}

bool Pipeline::can_take() const {
  if (next_.take >= next_.deliver) return false;
  return !buffers_.is_staged() ||
         others_reached(ready, count_at(next_.take + 1));
}

void Pipeline::stage(std::size_t segment) {
  if (!buffers_.is_staged()) return;
  const AddTime watch(times_.local_ns);
  for (int lane = 0; buffers_.is_source(me()) && lane < plan_.lanes; ++lane) {
    if (is_mine(lane)) continue;
    const Range range = buffers_.chunk_of(segment, lane);
    std::memcpy(buffers_.staging(segment, range), buffers_.input(range),
                buffers_.bytes(range));
  }
  Progress& mine = progress(me());
  publish(mine.staged, mine.sleepers, count_at(segment + 1));
}

void Pipeline::collect(std::size_t segment) {
  const AddTime watch(times_.local_ns);
  for (int lane = me(); lane < plan_.lanes; lane += size()) {
    const Range range = buffers_.chunk_of(segment, lane);
    std::unique_ptr<float[]> partials;
    if (has_wide_partials())
      partials = std::make_unique_for_overwrite<float[]>(range.count);
    collect_lane(segment, lane, partials.get());
    if (has_network())
      exchange_.start(segment, lane, range, buffers_.work(segment, range),
                      std::move(partials));
  }
}

void Pipeline::collect_lane(std::size_t segment, int lane, float* partials) {
  const Range range = buffers_.chunk_of(segment, lane);
  if (range.count == 0) return;
  std::vector<const void*> sources;
  for (int member = 0; member < size(); ++member)
    if (buffers_.is_source(member))
      sources.push_back(buffers_.source(member, segment, range));
  if (sources.empty()) return;  // the data arrives in the exchange
  if (partials)
    return reduce_to_partials(job_.reduction, sources, partials, range.count);
  std::vector<void*> outputs;
  if (has_network() || buffers_.is_target(me()))
    outputs.push_back(buffers_.work(segment, range));
  for (int member = 0; !has_network() && member < size(); ++member)
    if (member != me() && buffers_.is_target(member))
      outputs.push_back(buffers_.target(member, segment, range));
  if (sources.size() == 1 && outputs.size() == 1 && sources[0] == outputs[0])
    return;  // the root of a broadcast
  Reduction how = job_.reduction;
  if (has_network()) how.divisor = 1;  // the exchange divides
  reduce(how, sources, outputs, range.count);
}

void Pipeline::deliver(std::size_t segment) {
  const AddTime watch(times_.local_ns);
  exchange_.end(segment);
  for (int lane = me(); has_network() && lane < plan_.lanes; lane += size()) {
    const Range range = buffers_.chunk_of(segment, lane);
    for (int member = 0; member < size(); ++member)
      if (member != me() && buffers_.is_target(member))
        std::memcpy(buffers_.target(member, segment, range),
                    buffers_.work(segment, range), buffers_.bytes(range));
  }
  if (size() == 1) return;
  Progress& mine = progress(me());
  publish(mine.ready, mine.sleepers, count_at(segment + 1));
}

void Pipeline::take(std::size_t segment) {
  if (!buffers_.is_staged()) return;
  const AddTime watch(times_.local_ns);
  for (int lane = 0; buffers_.is_target(me()) && lane < plan_.lanes; ++lane) {
    if (is_mine(lane)) continue;
    const Range range = buffers_.chunk_of(segment, lane);
    std::memcpy(buffers_.output(range), buffers_.staging(segment, range),
                buffers_.bytes(range));
  }
}

// Whether sums between hosts stay in f32 until the end.
bool Pipeline::has_wide_partials() const {
  return has_network() && job_.flow != Flow::kBroadcast &&
         comm::has_wide_partials(job_.reduction);
}

Progress& Pipeline::progress(int member) const {
  LocalGroup& local = call_.local();
  return local.progress(plan_.is_flat ? local.me() : member);
}

template <class Pick>
bool Pipeline::others_reached(Pick pick, std::uint32_t target) const {
  for (int member = 0; member < size(); ++member)
    if (member != me() && !pick(progress(member)).has_reached(target))
      return false;
  return true;
}

template <class Pick>
void Pipeline::wait_for_others(Pick pick, std::uint32_t target) {
  for (int member = 0; member < size(); ++member)
    if (member != me())
      call_.wait(pick(progress(member)), progress(member).sleepers, target);
}

}  // namespace sheaf::comm
