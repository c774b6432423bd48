#include "sheaf/comm/group/work.hpp"

#include <deque>
#include <thread>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"

namespace sheaf::comm {
namespace {

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an unknown error";
  }
}

}  // namespace

// State shared by copies of a Work. The thread that performs the operation
// holds only the State, so users' actions never run, and are never destroyed,
// on that thread.
struct Work::Handle {
  using Action = std::function<void(std::exception_ptr)>;

  explicit Handle(std::shared_ptr<State> of) : state(std::move(of)) {}

  const std::shared_ptr<State> state;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Action> actions;
  std::thread::id runner;     // the thread that is running actions
  std::exception_ptr failed;  // the first error of an action
};

Work::State::~State() {
  if (error_) return;
  run_steps();
  if (error_)
    log_error("an operation failed and wait() was not called on it: {}",
              message_of(error_));
}

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

bool Work::State::has_ended_well() {
  const std::lock_guard lock(mutex_);
  return is_done_ && !error_;
}

// Runs the steps under the lock, so that other waiting threads see their
// effects.
void Work::State::run_steps() {
  const std::lock_guard lock(mutex_);
  if (!is_done_ || error_ || steps_.empty()) return;
  try {
    for (const auto& step : steps_) step();
  } catch (...) {
    error_ = std::current_exception();
  }
  if (!error_) steps_.clear();
}

std::shared_ptr<Work::State::Steps> Work::State::take_steps() {
  const std::lock_guard lock(mutex_);
  if (steps_.empty()) return nullptr;
  return std::make_shared<Steps>(std::exchange(steps_, {}));
}

std::exception_ptr Work::State::error() {
  const std::lock_guard lock(mutex_);
  return error_;
}

Work::Work(std::shared_ptr<State> state)
    : handle_(std::make_shared<Handle>(std::move(state))) {}

void Work::wait() { wait(std::chrono::milliseconds::max()); }

void Work::wait(std::chrono::milliseconds timeout) {
  if (!handle_) return;
  State& state = *handle_->state;
  const bool is_bounded = timeout != std::chrono::milliseconds::max();
  const auto deadline = std::chrono::steady_clock::now() +
                        (is_bounded ? timeout : std::chrono::hours(24 * 365));
  while (state.needs_polling() && !state.poll() &&
         std::chrono::steady_clock::now() < deadline)
    state.rest();
  {
    std::unique_lock lock(state.mutex_);
    if (!state.changed_.wait_until(lock, deadline,
                                   [&] { return state.is_done_; }))
      throw TimeoutError(concat("the operation has not completed after ",
                                timeout.count(),
                                " ms of wait(); it is still running"));
  }
  run_actions(/*may_wait=*/true);
  if (const auto failure = error()) std::rethrow_exception(failure);
}

// Runs the pending actions; the operation must have completed. Returns whether
// all actions have run. If another thread is running them, waits for it or, if
// `may_wait` is false, returns false.
bool Work::run_actions(bool may_wait) const {
  Handle& handle = *handle_;
  handle.state->run_steps();
  const auto me = std::this_thread::get_id();
  const auto nobody = std::thread::id();
  std::unique_lock lock(handle.mutex);
  if (handle.runner == me) return true;  // called by an action
  if (handle.runner != nobody && !may_wait) return false;
  handle.changed.wait(lock, [&] { return handle.runner == nobody; });
  handle.runner = me;
  while (!handle.actions.empty()) {
    Handle::Action action = std::move(handle.actions.front());
    handle.actions.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      action(handle.state->error());
    } catch (...) {
      failure = std::current_exception();
    }
    action = nullptr;  // destroyed unlocked: its captures may use this Work
    lock.lock();
    if (!handle.failed) handle.failed = failure;
  }
  handle.runner = nobody;
  lock.unlock();
  handle.changed.notify_all();
  return true;
}

void Work::then(std::function<void()> action) {
  if (!handle_) return action();
  then([action = std::move(action)](const std::exception_ptr& error) {
    if (!error) action();
  });
}

void Work::then(std::function<void(std::exception_ptr)> action) {
  if (!handle_) return action(nullptr);
  std::exception_ptr before;
  {
    const std::lock_guard lock(handle_->mutex);
    before = handle_->failed;
    handle_->actions.push_back(std::move(action));
  }
  if (!handle_->state->poll()) return;
  run_actions(/*may_wait=*/true);
  const std::lock_guard lock(handle_->mutex);
  if (!before && handle_->failed) std::rethrow_exception(handle_->failed);
}

void Work::append(std::function<void()> step) {
  if (!handle_) return step();
  const std::lock_guard lock(handle_->state->mutex_);
  handle_->state->steps_.push_back(std::move(step));
}

bool Work::test() const {
  return !handle_ ||
         (handle_->state->poll() && run_actions(/*may_wait=*/false));
}

std::exception_ptr Work::error() const {
  if (!handle_) return nullptr;
  if (auto error = handle_->state->error()) return error;
  const std::lock_guard lock(handle_->mutex);
  return handle_->failed;
}

int Work::source() const { return handle_ ? handle_->state->source_ : -1; }

}  // namespace sheaf::comm
