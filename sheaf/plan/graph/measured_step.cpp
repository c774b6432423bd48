#include "sheaf/plan/graph/measured_step.hpp"

#include <algorithm>
#include <unordered_map>

#include "sheaf/base/error.hpp"
#include "sheaf/base/statistics.hpp"

namespace sheaf::plan {
namespace {

using At = std::size_t;

// Follows threads as in a replay, but with the measured duration of calls.
class MomentFinder {
 public:
  MomentFinder(const StepGraph& graph, const StepTrace& step)
      : graph_(graph), step_(step), begins_(step.threads.size()) {
    times_.step = step.span;
    times_.marks.resize(graph.threads.size());
    times_.kernels.resize(graph.kernels.size());
    match_calls();
  }

  ReplayTimes find() {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (At thread = 0; thread < graph_.threads.size(); ++thread)
        while (times_.marks[thread].size() < graph_.threads[thread].size() &&
               pass(thread))
          goes_on = true;
    }
    for (At thread = 0; thread < graph_.threads.size(); ++thread)
      SHEAF_CHECK(times_.marks[thread].size() == graph_.threads[thread].size(),
                  "threads of the trace wait for each other in a cycle");
    return std::move(times_);
  }

 private:
  // Kernels are numbered in launch order.
  void match_calls() {
    std::unordered_map<std::int64_t, const TracedKernel*> by_correlation;
    for (const TracedKernel& one : step_.kernels)
      by_correlation[one.correlation] = &one;
    At next = 0;
    for (const TracedCall& call : step_.calls) {
      begins_[call.thread][call.span.begin_ns] = call.span.end_ns;
      const auto found = by_correlation.find(call.correlation);
      if (found == by_correlation.end() || next == times_.kernels.size())
        continue;
      times_.kernels[next++] = found->second->span;
      launch_ends_.push_back(call.span.end_ns);
    }
  }

  // Returns false if the mark waits for one whose time is not yet known.
  bool pass(At thread) {
    auto& ends = times_.marks[thread];
    const ThreadMark& mark = graph_.threads[thread][ends.size()];
    const std::int64_t before =
        ends.empty() ? step_.span.begin_ns : ends.back();
    std::int64_t now = before + mark.cpu_ns;
    if (mark.other_thread != kNone) {
      const auto& other = times_.marks[static_cast<At>(mark.other_thread)];
      if (static_cast<At>(mark.other_mark) >= other.size()) return false;
      now = other[static_cast<At>(mark.other_mark)] + mark.delay_ns;
    }
    ends.push_back(std::max(before, end_of(mark, thread, now)));
    return true;
  }
  std::int64_t end_of(const ThreadMark& mark, At thread,
                      std::int64_t now) const {
    if (mark.kernel != kNone &&
        static_cast<At>(mark.kernel) < launch_ends_.size())
      return launch_ends_[static_cast<At>(mark.kernel)];
    if (mark.kind == ThreadMark::Kind::kPoint) return now;
    const auto call = begins_[thread].find(now);
    return call == begins_[thread].end() ? now + mark.call_ns : call->second;
  }

  const StepGraph& graph_;
  const StepTrace& step_;
  // End of each call by its start, by thread.
  std::vector<std::unordered_map<std::int64_t, std::int64_t>> begins_;
  std::vector<std::int64_t> launch_ends_;  // by kernel
  ReplayTimes times_;
};

}  // namespace

ReplayTimes measured_times(const StepGraph& graph, const StepTrace& step) {
  return MomentFinder(graph, step).find();
}

MeasuredStep read_measured(const std::filesystem::path& path) {
  const Trace trace = read_steps(path);
  std::vector<At> order(trace.steps.size());
  for (At i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](At a, At b) {
    return trace.steps[a].span.ns() < trace.steps[b].span.ns();
  });
  const At typical = order[order.size() / 2];
  MeasuredStep measured;
  measured.profile = make_profile(trace, typical, path.string());
  measured.times = measured_times(measured.profile.step, trace.steps[typical]);
  return measured;
}

std::vector<std::int64_t> clock_offsets(
    const std::vector<const StepGraph*>& ranks) {
  std::vector<std::int64_t> offsets;
  for (const StepGraph* rank : ranks) {
    std::vector<double> differences;
    for (std::size_t k = 0; k < rank->collectives.size(); ++k)
      differences.push_back(
          static_cast<double>(rank->collectives[k].span.end_ns -
                              ranks[0]->collectives[k].span.end_ns));
    offsets.push_back(differences.empty()
                          ? 0
                          : static_cast<std::int64_t>(median(differences)));
  }
  return offsets;
}

std::vector<std::int64_t> collective_ns(
    const std::vector<const StepGraph*>& ranks) {
  const auto offsets = clock_offsets(ranks);
  std::vector<std::int64_t> times;
  for (std::size_t k = 0; k < ranks[0]->collectives.size(); ++k) {
    std::int64_t begin = 0, end = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const Span& span = ranks[i]->collectives[k].span;
      begin =
          i == 0 ? span.begin_ns : std::max(begin, span.begin_ns - offsets[i]);
      end = std::max(end, span.end_ns - offsets[i]);
    }
    times.push_back(end - begin);
  }
  return times;
}

}  // namespace sheaf::plan
