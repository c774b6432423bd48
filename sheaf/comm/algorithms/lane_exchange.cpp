#include "sheaf/comm/algorithms/lane_exchange.hpp"

#include <algorithm>

#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {

LaneExchange::LaneExchange(CollectiveCall& call, const PipelineJob& job,
                           const PipelinePlan& plan, const HostMap& host_map,
                           PipelineTimes& times)
    : call_(call),
      job_(job),
      plan_(plan),
      host_map_(host_map),
      times_(times),
      tasks_(PipelineBuffers::kWindow) {
  if (host_map.host_count() == 1) return;
  for (int lane = 0; lane < plan.lanes; ++lane) {
    auto& peers = peers_.emplace_back();
    for (const auto& members : host_map.hosts)
      peers.push_back(call.group().world_rank(
          members[static_cast<std::size_t>(lane) % members.size()]));
  }
}

void LaneExchange::start(std::size_t segment, int lane, Range chunk,
                         std::byte* data, std::unique_ptr<float[]> partials) {
  if (chunk.count == 0) return;
  const Tag position = static_cast<Tag>((segment & 63) << 9 |
                                        (static_cast<std::size_t>(lane) & 511));
  tasks_of(segment).emplace_back(
      call_.group().runtime().transport(),
      peers_[static_cast<std::size_t>(lane)],
      make_tag(call_.is_end() ? TagKind::kEnd : TagKind::kData,
               call_.group().id(), position),
      schedule({0, chunk.count}), data, job_.reduction, std::move(partials));
}

Schedule LaneExchange::schedule(Range range) const {
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

bool LaneExchange::advance(std::size_t first, std::size_t last) {
  if (peers_.empty() || first == last) return false;
  bool has_moved = false;
  for (std::size_t segment = first; segment < last; ++segment)
    for (LaneTask& task : tasks_of(segment))
      if (!task.has_ended() && task.advance()) has_moved = true;
  note_tiers();
  return has_moved;
}

// Assumes that tiers which were busy at the last call have been busy until now.
void LaneExchange::note_tiers() {
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
  for (const Tasks& tasks : tasks_)
    for (const LaneTask& task : tasks)
      if (!task.has_ended())
        busy_tiers_.set(static_cast<std::size_t>(task.tier()));
}

bool LaneExchange::is_complete(std::size_t segment) const {
  const Tasks& tasks = tasks_[segment % PipelineBuffers::kWindow];
  return std::all_of(tasks.begin(), tasks.end(),
                     [](const LaneTask& task) { return task.has_ended(); });
}

}  // namespace sheaf::comm
