#include "sheaf/plan/replay.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"

namespace sheaf::plan {

class Replay::Run {
 public:
  Run(Replay& state, const StepGraph& step)
      : state_(state),
        step_(step),
        next_(step.threads.size()),
        clock_(step.threads.size(), state.now_ns_),
        times_(step.threads.size()),
        kernel_end_(step.kernels.size()) {
    state_.free_ns_.resize(std::max(state_.free_ns_.size(), step.streams), 0);
    for (std::size_t i = 0; i < step.threads.size(); ++i)
      times_[i].reserve(step.threads[i].size());
  }

  // Threads go on in the order of their clocks, so that launches come in the
  // order of time.
  std::int64_t finish() {
    for (;;) {
      std::size_t best = step_.threads.size();
      std::int64_t best_ns = 0;
      bool is_left = false;
      for (std::size_t i = 0; i < step_.threads.size(); ++i) {
        if (next_[i] == step_.threads[i].size()) continue;
        is_left = true;
        const auto ready = ready_ns(i);
        if (ready < 0 || (best < step_.threads.size() && ready >= best_ns))
          continue;
        best = i;
        best_ns = ready;
      }
      if (!is_left) break;
      SHEAF_CHECK(best < step_.threads.size(),
                  "threads of the trace wait for each other");
      pass(best, best_ns);
    }
    return clock_[0];
  }

 private:
  // When the thread comes to its next mark; -1: it waits for another.
  std::int64_t ready_ns(std::size_t thread) const {
    const ThreadMark& mark = step_.threads[thread][next_[thread]];
    std::int64_t ready = clock_[thread] + mark.cpu_ns;
    if (mark.other_thread == kNone) return ready;
    const auto& other = times_[static_cast<std::size_t>(mark.other_thread)];
    const auto at = static_cast<std::size_t>(mark.other_mark);
    if (at >= other.size()) return -1;
    return std::max(ready, other[at] + mark.delay_ns);
  }

  void pass(std::size_t thread, std::int64_t now) {
    const ThreadMark& mark = step_.threads[thread][next_[thread]];
    if (mark.kind == ThreadMark::Kind::kLaunch)
      now = launch(static_cast<std::size_t>(mark.kernel), now) + mark.call_ns;
    else if (mark.kind == ThreadMark::Kind::kWaitAll)
      now = std::max(now, last_end()) + mark.call_ns;
    clock_[thread] = now;
    times_[thread].push_back(now);
    ++next_[thread];
  }

  // When the queue has room for it.
  std::int64_t launch(std::size_t number, std::int64_t now) {
    auto& queue = state_.unfinished_ns_;
    while (!queue.empty() && queue.front() <= now) queue.pop_front();
    while (queue.size() >= state_.options_.queue) {
      now = std::max(now, queue.front());
      queue.pop_front();
    }
    const KernelTask& task = step_.kernels[number];
    std::int64_t& free = state_.free_ns_[task.stream];
    std::int64_t begin = std::max(now + task.latency_ns, free + task.gap_ns);
    for (const std::int32_t other : task.after)
      begin = std::max(begin, kernel_end_[static_cast<std::size_t>(other)]);
    free = begin + task.ns;
    kernel_end_[number] = free;
    queue.insert(std::upper_bound(queue.begin(), queue.end(), free), free);
    return now;
  }

  std::int64_t last_end() const {
    return *std::max_element(state_.free_ns_.begin(), state_.free_ns_.end());
  }

  Replay& state_;
  const StepGraph& step_;
  std::vector<std::size_t> next_;                 // mark, by thread
  std::vector<std::int64_t> clock_;               // by thread
  std::vector<std::vector<std::int64_t>> times_;  // of marks, by thread
  std::vector<std::int64_t> kernel_end_;
};

std::int64_t Replay::run(const StepGraph& step) {
  const std::int64_t begin = now_ns_;
  now_ns_ = Run(*this, step).finish();
  return now_ns_ - begin;
}

std::int64_t Replay::backlog_ns() const {
  std::int64_t last = now_ns_;
  for (const std::int64_t ns : free_ns_) last = std::max(last, ns);
  return last - now_ns_;
}

}  // namespace sheaf::plan
