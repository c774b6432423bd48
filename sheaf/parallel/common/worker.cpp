#include "sheaf/parallel/common/worker.hpp"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace sheaf::parallel {
namespace {

// The worker runs often but briefly: it receives a message and sends the next.
// Next to compute threads it would wait milliseconds each time, until one of
// them has used up its time slice. Since Linux 6.12, a thread that requests
// short slices is scheduled first, without a larger share of the processor. On
// other kernels this has no effect.
void ask_for_short_slices() {
  struct {
    std::uint32_t size = 48;
    std::uint32_t policy = 0;  // SCHED_OTHER
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime_ns = 100'000;
    std::uint64_t deadline_ns = 0;
    std::uint64_t period_ns = 0;
  } attributes;
  static_assert(sizeof attributes == 48);
  attributes.nice = nice(0);
  ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Worker::add(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_all();
}

void Worker::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.empty() && !is_busy_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Worker::run() {
  ::prctl(PR_SET_NAME, "sheaf-exchange");
  ask_for_short_slices();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_closing_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const auto job = std::move(jobs_.front());
    jobs_.pop_front();
    if (error_) {
      changed_.notify_all();  // drain() may be waiting for this job
      continue;
    }
    is_busy_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      job();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    is_busy_ = false;
    if (!error_) error_ = error;
    changed_.notify_all();
  }
}

// If all cores are computing, an overlapping exchange only takes cores away.
bool should_overlap(Overlap wish, const comm::Group& group) {
  if (wish != Overlap::kAuto) return wish == Overlap::kOn;
  return group.host_count() > 1 ||
         static_cast<unsigned>(2 * group.local_size()) <=
             std::thread::hardware_concurrency();
}

}  // namespace sheaf::parallel
