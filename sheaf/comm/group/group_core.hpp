#pragma once
// Implementation of a group. Users hold it through Group.

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sheaf/comm/group/job_queue.hpp"
#include "sheaf/comm/host/local_group.hpp"
#include "sheaf/comm/process/attachments.hpp"
#include "sheaf/comm/process/runtime.hpp"

namespace sheaf::comm {

// Identifies a group. The id is unique among live groups and small enough for
// tags. The serial number is never reused by groups with a rank in common.
struct GroupName {
  int id = 0;
  std::uint32_t serial = 0;
};

class GroupCore {
 public:
  // `region` is this host's LocalGroup memory, at `region_offset` of the heap
  // of the host's first member.
  GroupCore(std::shared_ptr<Runtime> runtime, GroupName name,
            std::vector<int> world_ranks, HostMap host_map, std::byte* region,
            std::uint64_t region_offset);
  ~GroupCore();
  GroupCore(const GroupCore&) = delete;
  GroupCore& operator=(const GroupCore&) = delete;

  Runtime& runtime() { return *runtime_; }
  const std::shared_ptr<Runtime>& shared_runtime() const { return runtime_; }
  int id() const { return id_; }
  CallNumber number_of(std::uint32_t sequence) const {
    return {id_, serial_, sequence};
  }
  // Like the id, but never reused; 0 for the world group.
  std::uint32_t serial() const { return serial_; }
  int rank() const { return host_map_.rank; }
  int size() const { return host_map_.size(); }
  const HostMap& host_map() const { return host_map_; }
  LocalGroup& local() { return local_; }
  int world_rank(int rank) const {
    return world_ranks_[static_cast<std::size_t>(rank)];
  }
  const std::vector<int>& world_ranks() const { return world_ranks_; }
  // Identifies this group among all live groups: groups with the same id have
  // no rank in common, so the lowest world rank distinguishes them.
  int alarm_key() const {
    return id_ + kMaxGroups * *std::min_element(world_ranks_.begin(),
                                                world_ranks_.end());
  }
  // "rank 3" or, in a smaller group, "rank 1 (3 in the world)".
  std::string rank_text(int rank) const;

  // Runs `job`, or queues it behind pending ones; see JobQueue.
  template <class Job>
  Work submit(bool async, Job job) {
    return jobs_.submit(async, std::move(job));
  }

  bool is_patient() const { return is_patient_; }
  void set_patient(bool is_patient) { is_patient_ = is_patient; }

  std::uint32_t next_sequence() { return ++sequence_; }
  // Number of segments counted by the progress counters so far; the same on all
  // ranks.
  std::uint32_t segments() const { return segments_; }
  void add_segments(std::uint32_t count) { segments_ += count; }

  // A group that failed stays failed: every later call throws the same error.
  void throw_if_failed() const;
  void fail(std::exception_ptr error);

  // A number for messages that a higher layer sends under its own tags. The
  // same on all ranks if they request numbers in the same order.
  std::uint32_t next_channel() { return channels_.fetch_add(1); }

  Attachments& attachments() { return attachments_; }

 private:
  std::shared_ptr<Runtime> runtime_;
  std::atomic<bool> is_patient_{false};
  const int id_;
  const std::uint32_t serial_;
  const std::vector<int> world_ranks_;
  const HostMap host_map_;
  LocalGroup local_;
  const std::uint64_t region_offset_;
  Attachments attachments_;

  std::uint32_t sequence_ = 0;
  std::uint32_t segments_ = 0;
  std::atomic<std::uint32_t> channels_{0};
  mutable std::mutex failure_mutex_;
  std::exception_ptr failure_;

  JobQueue jobs_;
};

}  // namespace sheaf::comm
