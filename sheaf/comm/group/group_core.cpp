#include "sheaf/comm/group/group_core.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/comm/process/mailroom.hpp"

namespace sheaf::comm {

GroupCore::GroupCore(std::shared_ptr<Runtime> runtime, GroupName name,
                     std::vector<int> world_ranks, HostMap host_map,
                     std::byte* region, std::uint64_t region_offset)
    : runtime_(std::move(runtime)),
      id_(name.id),
      serial_(name.serial),
      world_ranks_(std::move(world_ranks)),
      host_map_(std::move(host_map)),
      local_(region, host_map_.local_count(), host_map_.local),
      region_offset_(region_offset),
      // The end of the program is itself a call of the world group, made after
      // all of its other calls, so the world group needs no count.
      jobs_(id_ == 0 ? nullptr : &runtime_->my_end()) {
  runtime_->mailroom().open_group(serial_, world_ranks_);
  runtime_->my_end().note_call(number_of(0));
}

GroupCore::~GroupCore() {
  jobs_.close();
  runtime_->mailroom().close_group(serial_);
  // The alarms of a failed group remain, so its id must not be reused.
  if (!failure_) runtime_->release_id(id_);
  if (local_.leave()) {
    const int first = world_rank(host_map_.local_ranks().front());
    const auto& world = runtime_->host_map();
    runtime_->memory()
        .header(world.local_of[static_cast<std::size_t>(first)])
        .returned.put(region_offset_);
  }
}

std::string GroupCore::rank_text(int rank) const {
  if (world_rank(rank) == rank) return concat("rank ", rank);
  return concat("rank ", rank, " (", world_rank(rank), " in the world)");
}

void GroupCore::throw_if_failed() const {
  const std::lock_guard lock(failure_mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void GroupCore::fail(std::exception_ptr error) {
  const std::lock_guard lock(failure_mutex_);
  if (!failure_) failure_ = std::move(error);
}

}  // namespace sheaf::comm
