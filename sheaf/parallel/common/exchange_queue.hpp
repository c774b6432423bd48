#pragma once
// The exchanges of a pass, in the order in which they were added: they run on a
// worker thread while backward() continues, or at the end of backward() on its
// own thread.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

#include "sheaf/parallel/common/worker.hpp"

namespace sheaf::parallel {

// One thread adds jobs and waits for them. The destructor returns when the jobs
// of the worker thread have ended, so objects that jobs use must outlive the
// queue.
class ExchangeQueue {
 public:
  // `is_overlapping`: jobs run on a worker thread as soon as possible.
  // Otherwise they run on the thread that waits for them.
  explicit ExchangeQueue(bool is_overlapping)
      : is_overlapping_(is_overlapping) {}

  bool is_overlapping() const { return is_overlapping_; }
  // After a job has thrown, later jobs are dropped until the next pass.
  void add(std::function<void()> job);
  // Returns when the first `jobs` jobs of the pass have ended. Rethrows the
  // error of a job that threw.
  void wait_for(std::size_t jobs);
  // The same for all jobs of the pass. Jobs added later belong to the next one.
  void finish();
  // Ends a broken pass. Jobs of the worker thread run first, because other
  // ranks may take part in them; their errors are ignored. Other jobs are
  // dropped.
  void discard() noexcept;

 private:
  void run_next();
  void note_end(bool has_failed);
  void restart();

  const bool is_overlapping_;
  std::deque<std::function<void()>> waiting_;  // unused if overlapping
  std::mutex mutex_;                           // guards the members below
  std::condition_variable changed_;
  std::size_t ended_ = 0;  // jobs of this pass that succeeded
  bool has_failed_ = false;
  Worker worker_;  // destroyed first
};

}  // namespace sheaf::parallel
