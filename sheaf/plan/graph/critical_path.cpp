// The walk starts at the end of the slowest rank's own thread and goes back in
// time. From each mark or kernel it continues with the dependency that was met
// last; the interval between the two moments is a piece of the path.
#include "sheaf/plan/graph/critical_path.hpp"

#include <algorithm>
#include <map>

#include "sheaf/base/error.hpp"

namespace sheaf::plan {
namespace {

using At = std::size_t;

// The path spans one step, so one step back should suffice.
constexpr int kMostStepsBack = 16;

// A position of the walk: the end of a mark (for a kernel: the start of its
// launch) or the end of a kernel.
struct PathPlace {
  At rank = 0;
  At thread = 0;
  std::int32_t mark = kNone;
  std::int32_t kernel = kNone;
};

// The dependency that was met last, and when.
struct PathReason {
  std::int64_t ns = 0;
  Cause cause = Cause::kStep;
  PathPlace place;
  bool is_known = false;  // false: backlog of the step before
};

// Lookup tables for the times of one rank.
class RankTimes {
 public:
  RankTimes(const StepGraph& step, const ReplayTimes& times)
      : step_(step), times_(times), launch_(step.kernels.size()) {
    for (At thread = 0; thread < step.threads.size(); ++thread)
      for (At i = 0; i < step.threads[thread].size(); ++i)
        if (const auto kernel = step.threads[thread][i].kernel; kernel != kNone)
          launch_[static_cast<At>(kernel)] = {thread, i};
    before_.assign(step.kernels.size(), kNone);
    sort_kernels();
  }

  const StepGraph& step() const { return step_; }
  const ReplayTimes& times() const { return times_; }
  const KernelTask& task(std::int32_t kernel) const {
    return step_.kernels[static_cast<At>(kernel)];
  }
  const Span& span(std::int32_t kernel) const {
    return times_.kernels[static_cast<At>(kernel)];
  }
  std::pair<At, At> launch(std::int32_t kernel) const {
    return launch_[static_cast<At>(kernel)];
  }
  // The previous kernel on its stream; kNone if there is none.
  std::int32_t before(std::int32_t kernel) const {
    return before_[static_cast<At>(kernel)];
  }
  // kNone if no kernel of this step ended then.
  std::int32_t ended_at(std::int64_t ns) const {
    const auto at = first_from(ns);
    return at != order_.end() && span(*at).end_ns == ns ? *at : kNone;
  }
  std::int32_t ended_near(std::int64_t ns) const {
    if (order_.empty()) return kNone;
    const auto at = first_from(ns);
    return at == order_.end() ? order_.back() : *at;
  }
  std::int32_t collective(std::int32_t number) const {
    const auto found = collectives_.find(number);
    return found == collectives_.end() ? kNone : found->second;
  }

 private:
  void sort_kernels() {
    for (At i = 0; i < step_.kernels.size(); ++i)
      order_.push_back(static_cast<std::int32_t>(i));
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::int32_t a, std::int32_t b) {
                       return span(a).end_ns < span(b).end_ns;
                     });
    std::vector<std::int32_t> last(step_.streams, kNone);
    for (const std::int32_t kernel : order_) {
      before_[static_cast<At>(kernel)] = last[task(kernel).stream];
      last[task(kernel).stream] = kernel;
      if (task(kernel).collective != kNone)
        collectives_[task(kernel).collective] = kernel;
    }
  }
  std::vector<std::int32_t>::const_iterator first_from(std::int64_t ns) const {
    return std::partition_point(
        order_.begin(), order_.end(),
        [&](std::int32_t kernel) { return span(kernel).end_ns < ns; });
  }

  const StepGraph& step_;
  const ReplayTimes& times_;
  std::vector<std::pair<At, At>> launch_;  // thread and mark, by kernel
  std::vector<std::int32_t> before_;       // by kernel
  std::vector<std::int32_t> order_;        // kernels by end time
  std::map<std::int32_t, std::int32_t> collectives_;  // kernel by number
};

class PathWalk {
 public:
  PathWalk(const std::vector<const StepGraph*>& steps,
           const std::vector<ReplayTimes>& times) {
    for (At i = 0; i < steps.size(); ++i)
      ranks_.emplace_back(*steps[i], times[i]);
    for (At i = 1; i < ranks_.size(); ++i)
      if (step_span(i).ns() > step_span(slowest_).ns()) slowest_ = i;
  }

  std::vector<PathPiece> walk() {
    const Span whole = step_span(slowest_);
    const auto& marks = ranks_[slowest_].step().threads[0];
    if (marks.empty()) return {};
    PathPlace place{slowest_, 0, static_cast<std::int32_t>(marks.size()) - 1};
    std::int64_t now = whole.end_ns;
    while (now > whole.begin_ns) {
      PathReason reason = reason_of(place);
      const std::int64_t from =
          std::clamp(reason.ns + shift_, whole.begin_ns, now);
      add(place, reason.cause, {from, now});
      now = from;
      if (reason.cause == Cause::kStep && shift_ == 0) break;
      if (!reason.is_known && !find_in_step_before(reason, now)) break;
      place = reason.place;
    }
    if (now > whole.begin_ns)
      pieces_.push_back({slowest_,
                         0,
                         kNone,
                         kNone,
                         Cause::kStep,
                         true,
                         {whole.begin_ns, now}});
    std::reverse(pieces_.begin(), pieces_.end());
    return std::move(pieces_);
  }

 private:
  const Span& step_span(At rank) const { return ranks_[rank].times().step; }

  void add(const PathPlace& place, Cause cause, const Span& span) {
    if (span.ns() <= 0) return;
    pieces_.push_back({place.rank, place.thread, place.mark, place.kernel,
                       cause, shift_ != 0, span});
  }

  PathReason reason_of(const PathPlace& place) const {
    return place.kernel == kNone ? reason_of_mark(place)
                                 : reason_of_kernel(place);
  }

  static void take(PathReason& best, const PathReason& other) {
    if (other.ns > best.ns) best = other;
  }

  PathReason reason_of_mark(const PathPlace& place) const {
    const RankTimes& rank = ranks_[place.rank];
    const auto& ends = rank.times().marks;
    const auto number = static_cast<At>(place.mark);
    const ThreadMark& mark = rank.step().threads[place.thread][number];
    PathReason best{rank.times().step.begin_ns, Cause::kStep, {}, false};
    if (number > 0) {
      best = {ends[place.thread][number - 1], Cause::kThread, place, true};
      --best.place.mark;
    }
    std::int64_t ready = best.ns + mark.cpu_ns;
    if (mark.other_thread != kNone) {
      const auto other = static_cast<At>(mark.other_thread);
      const std::int64_t end = ends[other][static_cast<At>(mark.other_mark)];
      if (end + mark.delay_ns > ready) {
        ready = end + mark.delay_ns;
        best = {end,
                Cause::kOtherThread,
                {place.rank, other, mark.other_mark},
                true};
      }
    }
    const std::int64_t called = ends[place.thread][number] - mark.call_ns;
    if (mark.kind != ThreadMark::Kind::kPoint && called > ready)
      best = reason_of_wait(place.rank, mark, called);
    return best;
  }
  // The mark waited for the end of a kernel.
  PathReason reason_of_wait(At rank, const ThreadMark& mark,
                            std::int64_t ns) const {
    const Cause cause =
        mark.kind == ThreadMark::Kind::kLaunch ? Cause::kQueue : Cause::kDevice;
    const std::int32_t kernel = ranks_[rank].ended_at(ns);
    return {ns, cause, {rank, 0, kNone, kernel}, kernel != kNone};
  }

  PathReason reason_of_kernel(const PathPlace& place) const {
    const RankTimes& rank = ranks_[place.rank];
    const KernelTask& task = rank.task(place.kernel);
    if (task.collective != kNone)
      if (const At last = last_rank(task.collective, place.rank);
          last != place.rank) {
        const std::int32_t other = ranks_[last].collective(task.collective);
        PathReason reason = reason_of_begin(last, other);
        reason.cause = Cause::kOtherRank;
        return reason;
      }
    return reason_of_begin(place.rank, place.kernel);
  }
  // The rank that reached the collective last; `rank` if several did.
  At last_rank(std::int32_t number, At rank) const {
    At last = rank;
    const auto came = [&](At i) {
      return ranks_[i].span(ranks_[i].collective(number)).begin_ns;
    };
    for (At i = 0; i < ranks_.size(); ++i)
      if (ranks_[i].collective(number) != kNone && came(i) > came(last))
        last = i;
    return last;
  }

  PathReason reason_of_begin(At number, std::int32_t kernel) const {
    const RankTimes& rank = ranks_[number];
    const KernelTask& task = rank.task(kernel);
    const auto [thread, mark] = rank.launch(kernel);
    const std::int64_t launched = rank.times().marks[thread][mark] -
                                  rank.step().threads[thread][mark].call_ns;
    PathReason best{launched + task.latency_ns,
                    Cause::kLaunch,
                    {number, thread, static_cast<std::int32_t>(mark)},
                    true};
    const std::int32_t before = rank.before(kernel);
    if (before != kNone)
      take(best, {rank.span(before).end_ns + task.gap_ns,
                  Cause::kStream,
                  {number, 0, kNone, before},
                  true});
    for (const std::int32_t other : task.after)
      take(best, {rank.span(other).end_ns,
                  Cause::kOtherStream,
                  {number, 0, kNone, other},
                  true});
    const std::int64_t begin = rank.span(kernel).begin_ns;
    if (best.ns < begin)
      return {begin - task.gap_ns, Cause::kStream, {number}, false};
    if (best.cause == Cause::kLaunch) best.ns = launched;
    if (best.cause == Cause::kStream) best.ns -= task.gap_ns;
    return best;
  }

  // Finds a kernel of the step before by the corresponding kernel of this step.
  bool find_in_step_before(PathReason& reason, std::int64_t now) {
    const RankTimes& rank = ranks_[reason.place.rank];
    const std::int64_t period = step_span(slowest_).ns();
    if (reason.cause == Cause::kStep || ++steps_back_ > kMostStepsBack)
      return false;
    const std::int32_t first = rank.ended_near(rank.times().step.begin_ns);
    if (first == kNone) return false;
    std::int64_t ns = reason.ns + period;
    while (ns < rank.span(first).end_ns) ns += period;
    reason.place.kernel = rank.ended_near(ns);
    shift_ = now - rank.span(reason.place.kernel).end_ns;
    return shift_ != 0;
  }

  std::vector<RankTimes> ranks_;
  At slowest_ = 0;
  std::int64_t shift_ = 0;  // offset of times in an earlier step
  int steps_back_ = 0;
  std::vector<PathPiece> pieces_;
};

}  // namespace

const char* to_string(Cause cause) {
  switch (cause) {
    case Cause::kStep:
      return "start of the step";
    case Cause::kThread:
      return "earlier work of its thread";
    case Cause::kOtherThread:
      return "another thread";
    case Cause::kLaunch:
      return "its launch";
    case Cause::kStream:
      return "earlier kernel of its stream";
    case Cause::kOtherStream:
      return "another stream";
    case Cause::kQueue:
      return "space in the launch queue";
    case Cause::kDevice:
      return "the device";
    case Cause::kOtherRank:
      return "the last rank";
  }
  return "";
}

std::vector<PathPiece> critical_path(const std::vector<const StepGraph*>& steps,
                                     const std::vector<ReplayTimes>& times) {
  SHEAF_CHECK(steps.size() == times.size() && !steps.empty(), steps.size(),
              " steps, but the times of ", times.size());
  return PathWalk(steps, times).walk();
}

}  // namespace sheaf::plan
