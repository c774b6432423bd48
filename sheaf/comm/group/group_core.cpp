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
      region_offset_(region_offset) {
  runtime_->mailroom().open_group(serial_);
  runtime_->my_end().note_call(number_of(0));
}

GroupCore::~GroupCore() {
  {
    const std::lock_guard lock(queue_mutex_);
    is_closing_ = true;
  }
  queue_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
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

Work GroupCore::enqueue(bool async, std::function<void()> job) {
  auto state = std::make_shared<Work::State>();
  // The end of the program is itself a call of the world group, made after all
  // of its other calls, so the world group needs no count.
  RankEnd* const end = id_ == 0 ? nullptr : &runtime_->my_end();
  if (end) end->add_queued(1);
  auto task = [state, end, job = std::move(job)] {
    std::exception_ptr error;
    try {
      job();
    } catch (...) {
      error = std::current_exception();
    }
    if (end) end->add_queued(-1);
    state->finish(error);
  };
  {
    const std::lock_guard lock(queue_mutex_);
    queue_.push_back(std::move(task));
    ++unfinished_;
    if (!thread_.joinable()) thread_ = std::thread([this] { run_queue(); });
  }
  queue_changed_.notify_all();
  Work work(state);
  if (!async) work.wait();
  return work;
}

void GroupCore::run_queue() {
  std::unique_lock lock(queue_mutex_);
  for (;;) {
    queue_changed_.wait(lock, [&] { return is_closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto job = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    {
      const std::lock_guard call_lock(call_mutex_);
      job();
    }
    // Destroying the job may write results, which must happen before later
    // calls can start.
    job = nullptr;
    lock.lock();
    --unfinished_;
  }
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
