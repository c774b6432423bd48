#include "sheaf/plan/graph/step_replay.hpp"

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

  std::int64_t now() const { return clock_[0]; }

  // Threads proceed in the order of their clocks, so that launches are in order
  // of time. Returns true at the end, and false at a collective, which can
  // start on this rank at ready_ns(); call pass_collective() to continue.
  bool advance(bool stops_at_collectives) {
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
      if (!is_left) return true;
      SHEAF_CHECK(best < step_.threads.size(),
                  "threads of the trace wait for each other in a cycle");
      const ThreadMark& mark = step_.threads[best][next_[best]];
      if (stops_at_collectives && mark.kernel != kNone &&
          task_of(mark).collective != kNone) {
        stopped_ = best;
        stopped_ns_ = when_queue_has_room(best_ns);
        return false;
      }
      pass(best, best_ns);
    }
  }

  std::int64_t ready_ns() const {
    return begin_of(stopped_task(), stopped_ns_);
  }
  void pass_collective(std::int64_t end) {
    const ThreadMark& mark = step_.threads[stopped_][next_[stopped_]];
    const auto kernel = static_cast<std::size_t>(mark.kernel);
    came_.push_back({kernel, ready_ns()});
    end_kernel(kernel, end);
    go_on(stopped_, stopped_ns_ + mark.call_ns);
  }

  // For a completed step.
  ReplayTimes take_times() {
    ReplayTimes times;
    times.step = {state_.now_ns_, now()};
    times.marks = std::move(times_);
    for (std::size_t i = 0; i < kernel_end_.size(); ++i)
      times.kernels.push_back(
          {kernel_end_[i] - step_.kernels[i].ns, kernel_end_[i]});
    for (const auto& [kernel, ready] : came_)
      times.kernels[kernel].begin_ns = ready;
    return times;
  }

 private:
  // When the thread reaches its next mark; -1: it waits for another thread.
  std::int64_t ready_ns(std::size_t thread) const {
    const ThreadMark& mark = step_.threads[thread][next_[thread]];
    std::int64_t ready = clock_[thread] + mark.cpu_ns;
    if (mark.other_thread == kNone) return ready;
    const auto& other = times_[static_cast<std::size_t>(mark.other_thread)];
    const auto at = static_cast<std::size_t>(mark.other_mark);
    if (at >= other.size()) return -1;
    return std::max(ready, other[at] + mark.delay_ns);
  }

  const KernelTask& task_of(const ThreadMark& mark) const {
    return step_.kernels[static_cast<std::size_t>(mark.kernel)];
  }
  const KernelTask& stopped_task() const {
    return task_of(step_.threads[stopped_][next_[stopped_]]);
  }

  void pass(std::size_t thread, std::int64_t now) {
    const ThreadMark& mark = step_.threads[thread][next_[thread]];
    if (mark.kind == ThreadMark::Kind::kLaunch) {
      now = when_queue_has_room(now);
      const KernelTask& task = task_of(mark);
      end_kernel(static_cast<std::size_t>(mark.kernel),
                 begin_of(task, now) + task.ns);
      now += mark.call_ns;
    } else if (mark.kind == ThreadMark::Kind::kWaitAll) {
      now = std::max(now, last_end()) + mark.call_ns;
    }
    go_on(thread, now);
  }
  void go_on(std::size_t thread, std::int64_t now) {
    clock_[thread] = now;
    times_[thread].push_back(now);
    ++next_[thread];
  }

  std::int64_t when_queue_has_room(std::int64_t now) {
    auto& queue = state_.unfinished_ns_;
    while (!queue.empty() && queue.front() <= now) queue.pop_front();
    while (queue.size() >= state_.options_.queue) {
      now = std::max(now, queue.front());
      queue.pop_front();
    }
    return now;
  }
  // Start of a kernel that is launched at `now`.
  std::int64_t begin_of(const KernelTask& task, std::int64_t now) const {
    std::int64_t begin = std::max(now + task.latency_ns,
                                  state_.free_ns_[task.stream] + task.gap_ns);
    for (const std::int32_t other : task.after)
      begin = std::max(begin, kernel_end_[static_cast<std::size_t>(other)]);
    return begin;
  }
  void end_kernel(std::size_t number, std::int64_t end) {
    std::int64_t& free = state_.free_ns_[step_.kernels[number].stream];
    free = std::max(free, end);
    kernel_end_[number] = end;
    auto& queue = state_.unfinished_ns_;
    queue.insert(std::upper_bound(queue.begin(), queue.end(), end), end);
  }

  // There may be no stream: a thread may wait for a device without kernels.
  std::int64_t last_end() const {
    std::int64_t last = state_.now_ns_;
    for (const std::int64_t ns : state_.free_ns_) last = std::max(last, ns);
    return last;
  }

  Replay& state_;
  const StepGraph& step_;
  std::vector<std::size_t> next_;    // next mark, by thread
  std::vector<std::int64_t> clock_;  // by thread
  // End times of marks, by thread.
  std::vector<std::vector<std::int64_t>> times_;
  std::vector<std::int64_t> kernel_end_;
  std::size_t stopped_ = 0;      // thread that stopped at a collective
  std::int64_t stopped_ns_ = 0;  // time of its launch
  // Kernels of collectives, and when this rank was ready for them.
  std::vector<std::pair<std::size_t, std::int64_t>> came_;
};

std::int64_t Replay::run(const StepGraph& step, ReplayTimes* times) {
  const std::int64_t begin = now_ns_;
  Run run(*this, step);
  run.advance(/*stops_at_collectives=*/false);
  if (times != nullptr) *times = run.take_times();
  now_ns_ = run.now();
  return now_ns_ - begin;
}

Replay::Together Replay::run_together(
    std::vector<Replay>& ranks, const std::vector<const StepGraph*>& steps,
    const CollectiveNs& ns, std::vector<ReplayTimes>* times) {
  SHEAF_CHECK(ranks.size() == steps.size(), ranks.size(), " ranks and ",
              steps.size(), " steps");
  for (const StepGraph* step : steps)
    SHEAF_CHECK(step->collectives.size() == steps[0]->collectives.size(),
                "one rank's step has ", steps[0]->collectives.size(),
                " collectives, another rank's ", step->collectives.size(),
                "; the traces must be from ranks of one run");
  std::vector<Run> runs;
  runs.reserve(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i)
    runs.emplace_back(ranks[i], *steps[i]);
  Together result{std::vector<std::int64_t>(ranks.size()),
                  std::vector<std::int64_t>(ranks.size())};
  for (std::size_t k = 0; k < steps[0]->collectives.size(); ++k) {
    std::int64_t begin = 0;
    for (Run& run : runs) {
      run.advance(/*stops_at_collectives=*/true);
      begin = std::max(begin, run.ready_ns());
    }
    const std::int64_t end = begin + ns(k);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      result.waits_ns[i] += begin - runs[i].ready_ns();
      runs[i].pass_collective(end);
    }
  }
  if (times != nullptr) times->assign(runs.size(), {});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].advance(/*stops_at_collectives=*/true);
    if (times != nullptr) (*times)[i] = runs[i].take_times();
    result.step_ns[i] = runs[i].now() - ranks[i].now_ns_;
    ranks[i].now_ns_ = runs[i].now();
  }
  return result;
}

std::int64_t Replay::backlog_ns() const {
  std::int64_t last = now_ns_;
  for (const std::int64_t ns : free_ns_) last = std::max(last, ns);
  return last - now_ns_;
}

}  // namespace sheaf::plan
