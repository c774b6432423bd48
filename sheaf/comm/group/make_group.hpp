#pragma once
// How groups come to be: the first member of each host lays out the memory in
// which the host's members meet.

#include <memory>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/comm/group/group_core.hpp"

namespace sheaf::comm {

class GroupDraft {
 public:
  // `members` are ranks of `parent`; `me` is this rank there.
  GroupDraft(std::shared_ptr<Runtime> runtime, const Layout& parent,
             const std::vector<int>& members, int me);

  // Where this rank has laid out its host's region; 0 unless it is the first.
  std::uint64_t region_offset() const { return offset_; }
  // The member, as an index of `members`, that has laid out this host's.
  int first_of_host() const { return layout_.local_ranks().front(); }

  std::shared_ptr<GroupCore> make(GroupName name, std::vector<int> world_ranks,
                                  std::uint64_t region_offset) const;

 private:
  std::shared_ptr<Runtime> runtime_;
  Layout layout_;
  std::uint64_t offset_ = 0;
};

// The group of all ranks. Every rank calls it, once.
Group make_world(const std::shared_ptr<Runtime>& runtime);

}  // namespace sheaf::comm
