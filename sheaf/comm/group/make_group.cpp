#include "sheaf/comm/group/make_group.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {

GroupDraft::GroupDraft(std::shared_ptr<Runtime> runtime, const HostMap& parent,
                       const std::vector<int>& members, int me)
    : runtime_(std::move(runtime)) {
  const auto found = std::find(members.begin(), members.end(), me);
  if (found == members.end()) return;
  host_map_ =
      sub_host_map(parent, members, static_cast<int>(found - members.begin()));
  if (host_map_.local != 0) return;
  HostMemory& memory = runtime_->memory();
  memory.collect_returned();
  const int ranks = host_map_.local_count();
  std::byte* region =
      memory.heap().allocate(LocalGroup::region_bytes(ranks), /*commit=*/false);
  LocalGroup::initialize(region, ranks);
  offset_ = memory.offset(region);
}

std::shared_ptr<GroupCore> GroupDraft::make(GroupName name,
                                            std::vector<int> world_ranks,
                                            std::uint64_t region_offset) const {
  const int first =
      world_ranks[static_cast<std::size_t>(host_map_.local_ranks().front())];
  const auto& world = runtime_->host_map();
  std::byte* region =
      runtime_->memory().base(world.local_of[static_cast<std::size_t>(first)]) +
      region_offset;
  runtime_->take_id(name.id);
  return std::make_shared<GroupCore>(runtime_, name, std::move(world_ranks),
                                     host_map_, region, region_offset);
}

Group make_world(const std::shared_ptr<Runtime>& runtime) {
  const auto ranks = static_cast<std::size_t>(runtime->size());
  std::vector<int> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  const GroupDraft draft(runtime, runtime->host_map(), all, runtime->rank());
  const std::uint64_t mine = draft.region_offset();
  const auto bytes = bootstrap_all_gather(
      runtime->transport(), &mine, sizeof mine, runtime->timeout(),
      [&] { runtime->check_local_lives(); });
  std::uint64_t offset = 0;
  std::memcpy(&offset,
              bytes.data() + static_cast<std::size_t>(draft.first_of_host()) *
                                 sizeof offset,
              sizeof offset);
  return Group(draft.make({}, all, offset));
}

}  // namespace sheaf::comm
