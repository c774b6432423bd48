#pragma once
// Creation of groups. The first member on each host allocates the shared memory
// region through which the host's members communicate.

#include <memory>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/group/group_core.hpp"

namespace sheaf::comm {

class GroupDraft {
 public:
  // `members` are ranks of `parent`; `me` is this rank there.
  GroupDraft(std::shared_ptr<Runtime> runtime, const HostMap& parent,
             const std::vector<int>& members, int me);

  // Offset of the region that this rank allocated; 0 unless this rank is the
  // first of its host.
  std::uint64_t region_offset() const { return offset_; }
  // The member that allocated this host's region, as an index of `members`.
  int first_of_host() const { return host_map_.local_ranks().front(); }

  std::shared_ptr<GroupCore> make(GroupName name, std::vector<int> world_ranks,
                                  std::uint64_t region_offset) const;

 private:
  std::shared_ptr<Runtime> runtime_;
  HostMap host_map_;
  std::uint64_t offset_ = 0;
};

// Makes the group of all ranks. Every rank must call it, exactly once.
Group make_world(const std::shared_ptr<Runtime>& runtime);

}  // namespace sheaf::comm
