#include "sheaf/plan/graph/step_graph.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <unordered_map>

#include "sheaf/base/error.hpp"
#include "sheaf/base/statistics.hpp"

namespace sheaf::plan {
namespace {

// A launch waits if this many kernels are queued.
constexpr std::int32_t kFullQueue = 1000;
// A thread that is idle for longer may be waiting for another one.
constexpr std::int64_t kIdleNs = 50'000;
// Gaps between kernels are below this, unless the kernel waited for something
// else. They are negative if a kernel begins before the previous one ends.
constexpr std::int64_t kLargestGapNs = 20'000;
// A kernel that begins this long after its launch has waited for others.
constexpr std::int64_t kBehindNs = 10'000'000;
constexpr std::int64_t kTypicalCallNs = 5000;

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// Recognizes kernel names of NVIDIA's libraries.
bool is_product(const std::string& kernel) {
  for (const char* word :
       {"gemm", "gemv", "nvjet", "fprop", "dgrad", "wgrad", "convolve", "fmha"})
    if (contains(kernel, word)) return true;
  return false;
}

std::int64_t median_of(const std::vector<double>& values, std::int64_t none) {
  return values.empty() ? none : static_cast<std::int64_t>(median(values));
}

// An interval in which a thread is busy.
struct Busy {
  Span span;
  std::int32_t call = kNone;  // kNone: operators
  const Cut* cut = nullptr;
};

class GraphMaker {
 public:
  GraphMaker(const StepTrace& step, const Names& names,
             const std::vector<Cut>& cuts)
      : step_(step), names_(names), cuts_(cuts) {}

  StepGraph make() {
    graph_.measured_ns = step_.span.ns();
    graph_.streams = step_.streams.size();
    graph_.stream_names = step_.streams;
    for (const TracedKernel& kernel : step_.kernels)
      graph_.has_device |= !kernel.is_on_host;
    graph_.threads.resize(step_.threads.size());
    ends_.resize(step_.threads.size());
    match_kernels();
    measure_calls();
    for (std::size_t thread = 0; thread < step_.threads.size(); ++thread)
      mark_thread(thread);
    for (std::size_t thread = 0; thread < step_.threads.size(); ++thread)
      find_waits(thread);
    measure_kernels();
    find_stream_waits();
    number_collectives();
    return std::move(graph_);
  }

 private:
  // Numbers kernels in launch order.
  void match_kernels() {
    std::unordered_map<std::int64_t, std::int32_t> by_correlation;
    for (std::size_t i = 0; i < step_.kernels.size(); ++i)
      by_correlation[step_.kernels[i].correlation] =
          static_cast<std::int32_t>(i);
    kernel_of_call_.assign(step_.calls.size(), kNone);
    for (std::size_t i = 0; i < step_.calls.size(); ++i) {
      const auto found = by_correlation.find(step_.calls[i].correlation);
      if (found == by_correlation.end()) continue;
      kernel_of_call_[i] = static_cast<std::int32_t>(traced_.size());
      traced_.push_back(
          &step_.kernels[static_cast<std::size_t>(found->second)]);
      launches_.push_back(&step_.calls[i]);
    }
    graph_.kernels.resize(traced_.size());
    if (traced_.size() < step_.kernels.size())
      graph_.notes.push_back(concat(
          step_.kernels.size() - traced_.size(),
          " kernels share a launch with another kernel and are ignored"));
  }

  // Typical duration of a call that need not wait for a full queue, by name.
  void measure_calls() {
    std::map<std::uint32_t, std::vector<double>> free;
    for (std::size_t i = 0; i < step_.calls.size(); ++i)
      if (kernel_of_call_[i] != kNone && !was_full(i))
        free[step_.calls[i].name].push_back(
            static_cast<double>(step_.calls[i].span.ns()));
    for (auto& [name, times] : free)
      typical_[name] = median_of(times, kTypicalCallNs);
  }
  bool was_full(std::size_t call) const {
    return step_.calls[call].queued >= kFullQueue;
  }

  std::int64_t call_ns(std::size_t call) const {
    const std::int64_t measured = step_.calls[call].span.ns();
    if (!was_full(call)) return measured;
    const auto found = typical_.find(step_.calls[call].name);
    const std::int64_t typical =
        found == typical_.end() ? kTypicalCallNs : found->second;
    return std::min(measured, typical);
  }
  bool is_wait(std::size_t call) const {
    const std::string& name = names_[step_.calls[call].name];
    return contains(name, "DeviceSynchronize") ||
           contains(name, "StreamSynchronize") ||
           contains(name, "EventSynchronize");
  }

  // Operators, relevant calls and cuts of a thread, sorted by start.
  std::vector<Busy> busy_of(std::size_t thread) const {
    std::vector<Busy> list;
    for (const TracedOperator& one : step_.operators)
      if (one.thread == thread) list.push_back({one.span, kNone});
    for (std::size_t i = 0; i < step_.calls.size(); ++i)
      if (step_.calls[i].thread == thread)
        list.push_back({step_.calls[i].span, static_cast<std::int32_t>(i)});
    std::vector<Busy> cuts;
    for (const Cut& cut : cuts_)
      if (cut.thread == thread) cuts.push_back({{cut.ns, cut.ns}, kNone, &cut});
    list.insert(list.begin(), cuts.begin(), cuts.end());
    std::stable_sort(list.begin(), list.end(),
                     [](const Busy& a, const Busy& b) {
                       return a.span.begin_ns < b.span.begin_ns;
                     });
    return list;
  }

  // Adds marks at launches and waits, and around idle intervals.
  void mark_thread(std::size_t thread) {
    std::int64_t now = step_.span.begin_ns;
    std::int64_t busy_until = now;
    std::int32_t part = kNone;
    auto& marks = graph_.threads[thread];
    const auto add = [&](ThreadMark mark, const Span& call) {
      mark.part = part;
      mark.cpu_ns = std::max<std::int64_t>(0, call.begin_ns - now);
      now = std::max(now, call.end_ns);
      marks.push_back(mark);
      ends_[thread].push_back(now);
    };
    for (const Busy& busy : busy_of(thread)) {
      if (busy.span.begin_ns - busy_until > kIdleNs) {
        add({}, {busy_until, busy_until});
        add({}, {busy.span.begin_ns, busy.span.begin_ns});
        idle_.push_back(
            {thread, marks.size() - 1, {busy_until, busy.span.begin_ns}});
      }
      busy_until = std::max(busy_until, busy.span.end_ns);
      if (busy.cut) {
        add({}, busy.span);
        part = busy.cut->part;
      }
      if (busy.call != kNone) add_call(busy, add);
    }
    const std::int64_t end = thread == 0 ? step_.span.end_ns : busy_until;
    if (end - busy_until > kIdleNs) {
      add({}, {busy_until, busy_until});
      idle_.push_back({thread, marks.size(), {busy_until, end}});
    }
    add({}, {std::max(end, now), std::max(end, now)});
  }

  template <class Add>
  void add_call(const Busy& busy, Add add) {
    const auto call = static_cast<std::size_t>(busy.call);
    ThreadMark mark;
    mark.kernel = kernel_of_call_[call];
    if (mark.kernel != kNone) {
      mark.kind = ThreadMark::Kind::kLaunch;
      mark.call_ns = call_ns(call);
      if (is_on_host(mark.kernel)) {  // launched and awaited at once
        mark.call_ns = 0;
        add(mark, {busy.span.begin_ns, busy.span.begin_ns});
        mark = {};
        mark.kind = ThreadMark::Kind::kWaitAll;
      }
    } else if (is_wait(call)) {
      mark.kind = ThreadMark::Kind::kWaitAll;
      mark.call_ns = std::min(busy.span.ns(), kTypicalCallNs);
    } else {
      return;  // counts as computation
    }
    add(mark, busy.span);
  }

  bool is_on_host(std::int32_t kernel) const {
    return traced_[static_cast<std::size_t>(kernel)]->is_on_host;
  }

  // An idle thread continued because of the last action of another thread
  // before that time, if that thread was busy meanwhile.
  void find_waits(std::size_t thread) {
    for (const Idle& idle : idle_) {
      if (idle.thread != thread) continue;
      std::int32_t best_thread = kNone, best_mark = kNone;
      std::int64_t best_end = idle.span.begin_ns;
      for (std::size_t other = 0; other < ends_.size(); ++other) {
        if (other == thread) continue;
        const auto& ends = ends_[other];
        const auto after =
            std::upper_bound(ends.begin(), ends.end(), idle.span.end_ns);
        if (after == ends.begin() || *std::prev(after) <= best_end) continue;
        best_end = *std::prev(after);
        best_thread = static_cast<std::int32_t>(other);
        best_mark = static_cast<std::int32_t>(after - ends.begin()) - 1;
      }
      if (best_thread == kNone) continue;
      ThreadMark& mark = graph_.threads[thread][idle.mark];
      mark.other_thread = best_thread;
      mark.other_mark = best_mark;
      mark.delay_ns = idle.span.end_ns - best_end;
      mark.cpu_ns = 0;
    }
  }

  void measure_kernels() {
    std::vector<std::int32_t> last(graph_.streams, kNone);
    std::vector<double> gaps, latencies;
    std::vector<bool> has_gap(traced_.size()), has_latency(traced_.size());
    for (std::size_t i = 0; i < traced_.size(); ++i) {
      KernelTask& task = graph_.kernels[i];
      task.stream = traced_[i]->stream;
      task.ns = traced_[i]->span.ns();
      task.is_product = is_product(names_[traced_[i]->name]);
      std::int32_t& before = last[task.stream];
      const std::int64_t begin = traced_[i]->span.begin_ns;
      const std::int64_t free_at =
          before == kNone
              ? std::numeric_limits<std::int64_t>::min()
              : traced_[static_cast<std::size_t>(before)]->span.end_ns;
      const std::int64_t launched = launches_[i]->span.begin_ns;
      if (traced_[i]->is_on_host) {
        has_gap[i] = has_latency[i] = true;
        continue;
      }
      if (free_at > launches_[i]->span.end_ns) {
        task.gap_ns = begin - free_at;
        has_gap[i] = std::abs(task.gap_ns) < kLargestGapNs;
        if (has_gap[i]) gaps.push_back(static_cast<double>(task.gap_ns));
      } else if (begin - launched < kBehindNs) {
        task.latency_ns = std::max<std::int64_t>(0, begin - launched);
        has_latency[i] = true;
        latencies.push_back(static_cast<double>(task.latency_ns));
      }
      before = static_cast<std::int32_t>(i);
    }
    const std::int64_t gap = median_of(gaps, 1000);
    const std::int64_t latency = median_of(latencies, 8000);
    for (std::size_t i = 0; i < traced_.size(); ++i) {
      if (!has_gap[i]) graph_.kernels[i].gap_ns = gap;
      if (!has_latency[i]) graph_.kernels[i].latency_ns = latency;
    }
  }

  // A wait for an event affects the next kernel that the thread launches, and
  // the kernels launched on other streams before.
  void find_stream_waits() {
    std::vector<std::int32_t> last(graph_.streams, kNone);
    std::vector<std::vector<std::int32_t>> pending(step_.threads.size());
    for (std::size_t i = 0; i < step_.calls.size(); ++i) {
      const TracedCall& call = step_.calls[i];
      if (contains(names_[call.name], "StreamWaitEvent"))
        for (const std::int32_t kernel : last)
          if (kernel != kNone) pending[call.thread].push_back(kernel);
      if (kernel_of_call_[i] == kNone) continue;
      const auto number = static_cast<std::size_t>(kernel_of_call_[i]);
      KernelTask& task = graph_.kernels[number];
      for (const std::int32_t other : pending[call.thread])
        if (graph_.kernels[static_cast<std::size_t>(other)].stream !=
            task.stream)
          task.after.push_back(other);
      pending[call.thread].clear();
      last[task.stream] = kernel_of_call_[i];
    }
  }

  // Numbers collectives in launch order, which is the same on all ranks.
  void number_collectives() {
    for (std::size_t i = 0; i < traced_.size(); ++i) {
      const TracedKernel& kernel = *traced_[i];
      const std::string& told = names_[kernel.collective];
      if (told.empty() && !contains(names_[kernel.name], "nccl")) continue;
      graph_.kernels[i].collective =
          static_cast<std::int32_t>(graph_.collectives.size());
      graph_.collectives.push_back({told.empty() ? names_[kernel.name] : told,
                                    kernel.elements, kernel.span});
    }
  }

  struct Idle {
    std::size_t thread;
    std::size_t mark;  // at the end
    Span span;
  };

  const StepTrace& step_;
  const Names& names_;
  const std::vector<Cut>& cuts_;
  StepGraph graph_;
  std::vector<std::int32_t> kernel_of_call_;
  std::vector<const TracedKernel*> traced_;  // in launch order
  std::vector<const TracedCall*> launches_;  // in launch order
  std::map<std::uint32_t, std::int64_t> typical_;
  // End times of marks, by thread.
  std::vector<std::vector<std::int64_t>> ends_;
  std::vector<Idle> idle_;
};

}  // namespace

std::int64_t work_ns(const StepGraph& step, const ThreadMark& mark) {
  if (!step.has_device) return mark.cpu_ns + mark.call_ns;
  if (mark.kernel == kNone) return 0;
  const KernelTask& task = step.kernels[static_cast<std::size_t>(mark.kernel)];
  return task.collective == kNone ? task.ns : 0;
}

StepGraph make_graph(const StepTrace& step, const Names& names,
                     const std::vector<Cut>& cuts) {
  return GraphMaker(step, names, cuts).make();
}

}  // namespace sheaf::plan
