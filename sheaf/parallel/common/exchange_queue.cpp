#include "sheaf/parallel/common/exchange_queue.hpp"

#include <utility>

#include "sheaf/base/error.hpp"

namespace sheaf::parallel {

void ExchangeQueue::add(std::function<void()> job) {
  if (!is_overlapping_) {
    waiting_.push_back(std::move(job));
    return;
  }
  worker_.add([this, job = std::move(job)] {
    try {
      job();
    } catch (...) {
      note_end(/*has_failed=*/true);
      throw;
    }
    note_end(/*has_failed=*/false);
  });
}

void ExchangeQueue::wait_for(std::size_t jobs) {
  if (!is_overlapping_) {
    while (ended_ < jobs) run_next();
    return;
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_ >= jobs || has_failed_; });
  const bool has_failed = has_failed_;
  lock.unlock();
  if (has_failed) worker_.drain();
}

void ExchangeQueue::finish() {
  if (is_overlapping_)
    worker_.drain();
  else
    while (!waiting_.empty()) run_next();
  restart();
}

void ExchangeQueue::discard() noexcept {
  try {
    worker_.drain();
  } catch (...) {  // already reported, or from a discarded pass
  }
  waiting_.clear();
  restart();
}

void ExchangeQueue::run_next() {
  SHEAF_ASSERT(!waiting_.empty(), "there is no job to wait for");
  const auto job = std::move(waiting_.front());
  waiting_.pop_front();
  try {
    job();
  } catch (...) {
    waiting_.clear();
    throw;
  }
  note_end(/*has_failed=*/false);
}

void ExchangeQueue::note_end(bool has_failed) {
  {
    const std::lock_guard lock(mutex_);
    if (has_failed)
      has_failed_ = true;
    else
      ++ended_;
  }
  changed_.notify_all();
}

void ExchangeQueue::restart() {
  const std::lock_guard lock(mutex_);
  ended_ = 0;
  has_failed_ = false;
}

}  // namespace sheaf::parallel
