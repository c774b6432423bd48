#pragma once
// The operations of a group on this rank, one at a time.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "sheaf/comm/group/work.hpp"
#include "sheaf/comm/host/rank_end.hpp"

namespace sheaf::comm {

// Any thread may submit; only the owner may close.
class JobQueue {
 public:
  // `end` counts the jobs in the queue, so that peers of a rank that has left
  // main know whether it still makes calls. May be null.
  explicit JobQueue(RankEnd* end) : end_(end) {}
  ~JobQueue() { close(); }
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  // Runs `job` on the calling thread if no job is pending and `async` is false.
  // Otherwise runs it on the queue's thread, in submission order.
  template <class Job>
  Work submit(bool async, Job job) {
    if (async || unfinished_.load() != 0) return enqueue(async, std::move(job));
    const std::lock_guard lock(call_mutex_);
    job();
    return {};
  }

  // Runs the jobs in the queue and ends its thread. Nothing may be submitted
  // afterwards.
  void close();

 private:
  Work enqueue(bool async, std::function<void()> job);
  void run();

  RankEnd* const end_;
  std::mutex call_mutex_;  // held while a job runs
  std::mutex queue_mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::atomic<int> unfinished_{0};  // queued or running on the thread
  bool is_closing_ = false;
  std::thread thread_;
};

}  // namespace sheaf::comm
