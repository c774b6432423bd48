#pragma once
// A thread that runs jobs in the order in which they were added, such as
// exchanges during backward().

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "sheaf/parallel/common/strategy.hpp"

namespace sheaf::parallel {

class Worker {
 public:
  Worker() = default;
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // After a job has thrown, later jobs are dropped until drain().
  void add(std::function<void()> job);
  // Returns when all jobs have ended. Rethrows the first error.
  void drain();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::exception_ptr error_;
  bool is_busy_ = false;
  bool is_closing_ = false;
  std::thread thread_;
};

// Resolves Overlap::kAuto: overlap if cores are free for it, or if the group
// spans several hosts.
bool should_overlap(Overlap wish, const comm::Group& group);

}  // namespace sheaf::parallel
