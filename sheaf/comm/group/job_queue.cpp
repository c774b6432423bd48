#include "sheaf/comm/group/job_queue.hpp"

#include <exception>
#include <memory>
#include <utility>

namespace sheaf::comm {

void JobQueue::close() {
  {
    const std::lock_guard lock(queue_mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Work JobQueue::enqueue(bool async, std::function<void()> job) {
  auto state = std::make_shared<Work::State>();
  if (end_) end_->add_queued(1);
  auto task = [state, end = end_, job = std::move(job)] {
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
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_all();
  Work work(state);
  if (!async) work.wait();
  return work;
}

void JobQueue::run() {
  std::unique_lock lock(queue_mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_closing_ || !queue_.empty(); });
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

}  // namespace sheaf::comm
