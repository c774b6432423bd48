// The stages of a segment; see pipeline.cpp for the terms.

#include <algorithm>
#include <cstring>

#include "sheaf/comm/algorithms/pipeline.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {
namespace {

constexpr std::size_t kLine = 64;

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

void Pipeline::stage(std::size_t segment) {
  if (!is_staged_) return;
  const AddTime watch(times_.local_ns);
  for (int lane = 0; is_source(me_) && lane < plan_.lanes; ++lane) {
    if (is_mine(lane)) continue;
    const Range range = chunk_of(segment, lane);
    std::memcpy(buffer_for(me_, segment, range),
                job_.input + range.begin * element_, bytes(range));
  }
  Progress& mine = progress(me_);
  publish(mine.staged, mine.sleepers, count_at(segment + 1));
}

void Pipeline::collect(std::size_t segment) {
  const AddTime watch(times_.local_ns);
  for (int lane = me_; lane < plan_.lanes; lane += size_) {
    std::unique_ptr<float[]> partials;
    if (is_wide_)
      partials = std::make_unique_for_overwrite<float[]>(
          chunk_of(segment, lane).count);
    collect_lane(segment, lane, partials.get());
    if (has_network()) start_task(segment, lane, std::move(partials));
  }
}

void Pipeline::collect_lane(std::size_t segment, int lane, float* partials) {
  const Range range = chunk_of(segment, lane);
  if (range.count == 0) return;
  std::vector<const void*> sources;
  for (int member = 0; member < size_; ++member) {
    if (!is_source(member)) continue;
    const bool is_in_place = member == me_ || !is_staged_;
    sources.push_back(is_in_place ? inputs_[static_cast<std::size_t>(member)] +
                                        range.begin * element_
                                  : buffer_for(member, segment, range));
  }
  if (sources.empty()) return;  // the data arrives in the exchange
  if (partials)
    return reduce_to_partials(job_.reduction, sources, partials, range.count);
  std::vector<void*> outputs;
  if (has_network() || is_target(me_)) outputs.push_back(work(segment, range));
  for (int member = 0; !has_network() && member < size_; ++member)
    if (member != me_ && is_target(member))
      outputs.push_back(buffer_for(member, segment, range));
  if (sources.size() == 1 && outputs.size() == 1 && sources[0] == outputs[0])
    return;  // the root of a broadcast
  Reduction how = job_.reduction;
  if (has_network()) how.divisor = 1;  // the exchange divides
  reduce(how, sources, outputs, range.count);
}

void Pipeline::start_task(std::size_t segment, int lane,
                          std::unique_ptr<float[]> partials) {
  const Range range = chunk_of(segment, lane);
  if (range.count == 0) return;
  const Tag position = static_cast<Tag>((segment & 63) << 9 |
                                        (static_cast<std::size_t>(lane) & 511));
  under_way_[segment % kWindow].tasks.emplace_back(
      call_.group().runtime().transport(),
      lane_peers_[static_cast<std::size_t>(lane)],
      make_tag(call_.is_end() ? TagKind::kEnd : TagKind::kData,
               call_.group().id(), position),
      schedule({0, range.count}), work(segment, range), job_.reduction,
      std::move(partials));
}

Schedule Pipeline::schedule(Range range) const {
  const int hosts = host_map_.host_count();
  const int root_host = host_map_.host_of[static_cast<std::size_t>(job_.root)];
  switch (job_.flow) {
    case Flow::kReduce:
      return reduce_schedule(hosts, host_map_.host, root_host, range);
    case Flow::kBroadcast:
      return broadcast_schedule(hosts, host_map_.host, root_host, range);
    default:
      return tiers_schedule(plan_.outer_dims, plan_.tier_algorithms,
                            host_map_.host, range);
  }
}

bool Pipeline::advance_tasks() {
  if (!has_network() || next_collect_ == next_deliver_) return false;
  bool has_moved = false;
  for (std::size_t segment = next_deliver_; segment < next_collect_; ++segment)
    for (LaneTask& task : under_way_[segment % kWindow].tasks)
      if (!task.has_ended() && task.advance()) has_moved = true;
  note_tiers();
  return has_moved;
}

// Assumes that tiers which were busy at the last call have been busy until now.
void Pipeline::note_tiers() {
  const std::int64_t now = now_ns();
  if (busy_tiers_.any()) times_.network_ns += now - noted_ns_;
  for (std::size_t tier = 0; tier < busy_tiers_.size(); ++tier) {
    if (!busy_tiers_[tier]) continue;
    TierTime& time = times_.tiers[tier];
    if (time.busy_ns == 0) time.first_ns = noted_ns_;
    time.busy_ns += now - noted_ns_;
    time.last_ns = now;
  }
  noted_ns_ = now;
  busy_tiers_.reset();
  for (const ActiveSegment& segment : under_way_)
    for (const LaneTask& task : segment.tasks)
      if (!task.has_ended())
        busy_tiers_.set(static_cast<std::size_t>(task.tier()));
}

bool Pipeline::is_exchanged(std::size_t segment) const {
  const auto& tasks = under_way_[segment % kWindow].tasks;
  return std::all_of(tasks.begin(), tasks.end(),
                     [](const LaneTask& task) { return task.has_ended(); });
}

void Pipeline::deliver(std::size_t segment) {
  const AddTime watch(times_.local_ns);
  under_way_[segment % kWindow].tasks.clear();
  for (int lane = me_; has_network() && lane < plan_.lanes; lane += size_) {
    const Range range = chunk_of(segment, lane);
    for (int member = 0; member < size_; ++member)
      if (member != me_ && is_target(member))
        std::memcpy(buffer_for(member, segment, range), work(segment, range),
                    bytes(range));
  }
  if (size_ == 1) return;
  Progress& mine = progress(me_);
  publish(mine.ready, mine.sleepers, count_at(segment + 1));
}

void Pipeline::take(std::size_t segment) {
  if (!is_staged_) return;
  const AddTime watch(times_.local_ns);
  for (int lane = 0; is_target(me_) && lane < plan_.lanes; ++lane) {
    if (is_mine(lane)) continue;
    const Range range = chunk_of(segment, lane);
    std::memcpy(job_.output + range.begin * element_,
                buffer_for(me_, segment, range), bytes(range));
  }
}

Range Pipeline::segment_range(std::size_t segment) const {
  const std::size_t begin = segment * segment_elements_;
  return {begin, std::min(segment_elements_, job_.count - begin)};
}

// Ranges consist of whole cache lines, so that no line has two writers.
Range Pipeline::chunk_of(std::size_t segment, int lane) const {
  const Range whole = segment_range(segment);
  const std::size_t unit = kLine / element_;
  const std::size_t units = (whole.count + unit - 1) / unit;
  const auto cut = [&](int index) {
    const std::size_t at = units * static_cast<std::size_t>(index) /
                           static_cast<std::size_t>(plan_.lanes) * unit;
    return std::min(at, whole.count);
  };
  return {whole.begin + cut(lane), cut(lane + 1) - cut(lane)};
}

// The address to which an owner writes a range of the result for a member.
std::byte* Pipeline::buffer_for(int member, std::size_t segment,
                                Range range) const {
  if (!is_staged_)
    return outputs_[static_cast<std::size_t>(member)] + range.begin * element_;
  return local_.staging(member, segment) +
         (range.begin - segment_range(segment).begin) * element_;
}

bool Pipeline::is_source(int member) const {
  return job_.flow != Flow::kBroadcast || member == root_member_;
}

bool Pipeline::is_target(int member) const {
  switch (job_.flow) {
    case Flow::kReduce:
      return member == root_member_;
    case Flow::kBroadcast:
      return member != root_member_;
    default:
      return true;
  }
}

std::byte* Pipeline::work(std::size_t segment, Range range) {
  if (job_.output) return job_.output + range.begin * element_;
  return scratch_.data() + (segment % kWindow * segment_elements_ +
                            (range.begin - segment_range(segment).begin)) *
                               element_;
}

}  // namespace sheaf::comm
