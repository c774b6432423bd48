#include "sheaf/cli/plan/plan_bars.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"

namespace sheaf::cli {
namespace {

using At = std::size_t;
using report::PlanWork;

// Bars of one slot that are separated by at most this are merged.
constexpr std::int64_t kPauseNs = 10'000;

double bar_ms(std::int64_t ns) { return static_cast<double>(ns) * 1e-6; }

std::string numbered(const char* what, At number) {
  return number == 0 ? what : concat(what, " ", number + 1);
}

}  // namespace

// The bars of one lane. Spans must be added in order of time.
class NamedStep::Lane {
 public:
  Lane(std::vector<report::PlanBar>& bars, At number, std::int64_t begin_ns)
      : bars_(bars), number_(number), begin_ns_(begin_ns) {}

  void add(const Label& label, const plan::Span& span, bool is_critical) {
    if (span.ns() <= 0) return;
    const bool goes_on = has_bar_ && label == last_ &&
                         is_critical == bars_.back().is_critical &&
                         span.begin_ns - end_ns_ <= kPauseNs;
    end_ns_ = span.end_ns;
    if (goes_on) {
      bars_.back().ms = bar_ms(end_ns_ - first_ns_);
      return;
    }
    bars_.push_back({number_, label.name, bar_ms(span.begin_ns - begin_ns_),
                     bar_ms(span.ns()), label.work, is_critical});
    last_ = label;
    first_ns_ = span.begin_ns;
    has_bar_ = true;
  }
  bool has_bar() const { return has_bar_; }

 private:
  std::vector<report::PlanBar>& bars_;
  At number_;
  std::int64_t begin_ns_;
  bool has_bar_ = false;
  Label last_;
  std::int64_t first_ns_ = 0, end_ns_ = 0;
};

NamedStep::NamedStep(const plan::StepGraph& step,
                     const plan::ReplayTimes& times,
                     const plan::ModelGraph& graph, Sides sides,
                     plan::MarkFlags is_cast)
    : step_(step),
      times_(times),
      graph_(graph),
      sides_(std::move(sides)),
      is_cast_(std::move(is_cast)),
      launch_(step.kernels.size()) {
  for (At thread = 0; thread < step.threads.size(); ++thread)
    for (At i = 0; i < times.marks[thread].size(); ++i) {
      const std::int32_t kernel = step.threads[thread][i].kernel;
      if (kernel != plan::kNone) launch_[static_cast<At>(kernel)] = {thread, i};
      const std::int32_t side = sides_[thread][i];
      if (side != plan::kNone && side % 2 != 0)
        backward_end_ns_ = std::max(backward_end_ns_, times.marks[thread][i]);
    }
}

NamedStep NamedStep::predicted(const plan::Recorded& recorded,
                               const plan::StepGraph& step,
                               const plan::ReplayTimes& times) {
  Sides sides;
  for (const auto& thread : step.threads) {
    sides.emplace_back();
    for (const plan::ThreadMark& mark : thread)
      sides.back().push_back(mark.part);
  }
  return {step, times, recorded.graph(), std::move(sides),
          plan::find_casts(step)};
}

NamedStep NamedStep::measured(const plan::MeasuredStep& measured) {
  const plan::StepProfile& profile = measured.profile;
  Sides sides;
  plan::MarkFlags is_cast;
  for (const auto& thread : profile.step.threads) {
    sides.emplace_back();
    is_cast.emplace_back();
    for (const plan::ThreadMark& mark : thread) {
      const plan::Part* part = mark.part == plan::kNone
                                   ? nullptr
                                   : &profile.parts[static_cast<At>(mark.part)];
      sides.back().push_back(part == nullptr
                                 ? plan::kNone
                                 : static_cast<std::int32_t>(side_of(*part)));
      is_cast.back().push_back(part != nullptr && part->cast != plan::kNone);
    }
  }
  return {profile.step, measured.times, profile.graph, std::move(sides),
          std::move(is_cast)};
}

NamedStep::Label NamedStep::label_of_mark(At thread, At mark) const {
  const plan::ThreadMark& one = step_.threads[thread][mark];
  if (one.kernel != plan::kNone &&
      step_.kernels[static_cast<At>(one.kernel)].collective != plan::kNone)
    return label_of_kernel(static_cast<At>(one.kernel));
  const std::int32_t side = sides_[thread][mark];
  if (side == plan::kNone)
    return backward_end_ns_ > 0 && times_.marks[thread][mark] > backward_end_ns_
               ? Label{"optimizer", PlanWork::kOptimizer}
               : Label{"other", PlanWork::kOther};
  const std::string& name = graph_.slots[static_cast<At>(side / 2)].name;
  if (is_cast_[thread][mark]) return {name + ", cast", PlanWork::kCast};
  return {name, side % 2 != 0 ? PlanWork::kBackward : PlanWork::kForward};
}

NamedStep::Label NamedStep::label_of_kernel(At kernel) const {
  const std::int32_t number = step_.kernels[kernel].collective;
  if (number != plan::kNone)
    return {concat(step_.collectives[static_cast<At>(number)].name, " ",
                   number + 1),
            PlanWork::kExchange};
  return label_of_mark(launch_[kernel].first, launch_[kernel].second);
}

std::string NamedStep::thread_name(At thread) const {
  return numbered("thread", thread);
}

std::string NamedStep::stream_name(At stream) const {
  bool is_exchange = false;
  At before = 0;  // number of compute streams before this one
  std::set<std::uint32_t> computing;
  for (const plan::KernelTask& task : step_.kernels) {
    if (task.collective == plan::kNone) computing.insert(task.stream);
    is_exchange |= task.stream == stream && task.collective != plan::kNone;
  }
  if (is_exchange && !computing.contains(static_cast<std::uint32_t>(stream)))
    return "exchange";
  for (const std::uint32_t one : computing) before += one < stream ? 1 : 0;
  return numbered("stream", before);
}

// Waiting time has no bar.
void NamedStep::add_thread(At thread, Lane& lane) const {
  std::int64_t before = times_.step.begin_ns;
  for (At i = 0; i < times_.marks[thread].size(); ++i) {
    const plan::ThreadMark& mark = step_.threads[thread][i];
    const std::int64_t end = times_.marks[thread][i];
    const bool is_critical = critical_marks.contains({thread, i});
    const Label label = label_of_mark(thread, i);
    const std::int64_t called = std::max(before, end - mark.call_ns);
    if (mark.other_thread == plan::kNone)
      lane.add(label, {before, std::min(called, before + mark.cpu_ns)},
               is_critical);
    lane.add(label, {called, end}, is_critical);
    before = end;
  }
}

void NamedStep::add_stream(At stream, Lane& lane) const {
  std::vector<At> order;
  for (At i = 0; i < step_.kernels.size(); ++i)
    if (step_.kernels[i].stream == stream) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](At a, At b) {
    return times_.kernels[a].begin_ns < times_.kernels[b].begin_ns;
  });
  for (const At i : order)
    lane.add(label_of_kernel(i), times_.kernels[i],
             critical_kernels.contains(i));
}

void NamedStep::add_to(report::PlanTimeline& timeline,
                       const std::string& prefix, std::int64_t begin_ns) const {
  const auto add = [&](const std::string& name, const auto& fill) {
    Lane lane(timeline.bars, timeline.lanes.size(), begin_ns);
    fill(lane);
    if (lane.has_bar()) timeline.lanes.push_back(prefix + name);
  };
  for (At i = 0; i < step_.threads.size(); ++i)
    add(thread_name(i), [&](Lane& lane) { add_thread(i, lane); });
  for (At i = 0; i < step_.streams; ++i)
    add(stream_name(i), [&](Lane& lane) { add_stream(i, lane); });
}

}  // namespace sheaf::cli
