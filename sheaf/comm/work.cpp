#include "sheaf/comm/work.hpp"

#include <utility>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {

void Work::State::finish(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    is_done_ = true;
    error_ = std::move(error);
  }
  changed_.notify_all();
}

bool Work::State::is_done() {
  const std::lock_guard lock(mutex_);
  return is_done_;
}

void Work::wait() { wait(std::chrono::milliseconds::max()); }

void Work::wait(std::chrono::milliseconds timeout) {
  if (!state_) return;
  const bool is_bounded = timeout != std::chrono::milliseconds::max();
  const auto deadline = std::chrono::steady_clock::now() +
                        (is_bounded ? timeout : std::chrono::hours(24 * 365));
  while (state_->needs_polling() && !state_->poll() &&
         std::chrono::steady_clock::now() < deadline)
    state_->rest();
  std::unique_lock lock(state_->mutex_);
  if (!state_->changed_.wait_until(lock, deadline,
                                   [&] { return state_->is_done_; }))
    throw TimeoutError(concat("the operation has not ended after ",
                              timeout.count(),
                              " ms of wait(); it is still running"));
  if (state_->error_) std::rethrow_exception(state_->error_);
  lock.unlock();
  state_->run_after();
}

// Under the lock: whoever else waits gets to see what it has done.
void Work::State::run_after() {
  const std::lock_guard lock(mutex_);
  if (!is_done_ || error_ || !after_) return;
  const auto action = std::exchange(after_, nullptr);
  action();
}

void Work::then(std::function<void()> action) {
  if (!state_) return action();
  {
    const std::lock_guard lock(state_->mutex_);
    state_->after_ = std::move(action);
  }
  if (state_->poll()) state_->run_after();
}

bool Work::test() const {
  if (!state_) return true;
  const bool has_ended = state_->poll();
  if (has_ended) state_->run_after();
  return has_ended;
}

std::exception_ptr Work::error() const {
  if (!state_) return nullptr;
  const std::lock_guard lock(state_->mutex_);
  return state_->error_;
}

int Work::source() const { return state_ ? state_->source_ : -1; }

}  // namespace sheaf::comm
