#include <algorithm>

#include "sheaf/base/statistics.hpp"
#include "sheaf/plan/graph/step_profile.hpp"

namespace sheaf::plan {
namespace {

using At = std::size_t;

// Shorter waits mean that the batch was ready.
constexpr double kWaitingShare = 0.05;
constexpr double kWaitingNs = 200'000;

// Removes the waiting from the marks before the model's first: a dependency on
// a loader thread that the trace shows, or else `ns` of idle time.
void remove_wait(StepProfile& profile, std::int64_t ns) {
  const Stretch& first = profile.stretches[0];
  if (first.thread != 0 || first.part != kNone) return;
  auto* marks = profile.step.threads[0].data() + first.first;
  bool is_linked = false;
  for (At i = 0; i < first.count; ++i) {
    is_linked |= marks[i].other_thread != kNone;
    marks[i].other_thread = kNone;
  }
  for (At i = 0; i < first.count && !is_linked; ++i) {
    const std::int64_t less = std::min(ns, marks[i].cpu_ns);
    marks[i].cpu_ns -= less;
    ns -= less;
  }
}

}  // namespace

std::int64_t data_wait_ns(const StepTrace& step, const Names& names) {
  const auto phase = std::find_if(
      step.scopes.begin(), step.scopes.end(), [&](const TracedScope& one) {
        return one.thread == 0 && names[one.name] == "sheaf::phase data";
      });
  if (phase == step.scopes.end()) return 0;
  std::int64_t busy = 0, until = phase->span.begin_ns;
  for (const TracedOperator& one : step.operators) {
    if (one.thread != 0 || one.span.begin_ns >= phase->span.end_ns) continue;
    const std::int64_t begin = std::max(until, one.span.begin_ns);
    const std::int64_t end = std::min(phase->span.end_ns, one.span.end_ns);
    if (end <= begin) continue;
    busy += end - begin;
    until = end;
  }
  return phase->span.ns() - busy;
}

void take_out_data_wait(StepProfile& profile, const Trace& trace) {
  if (profile.model.loader_workers == 0) return;
  std::vector<double> waits, steps;
  for (const StepTrace& step : trace.steps) {
    waits.push_back(static_cast<double>(data_wait_ns(step, trace.names)));
    steps.push_back(static_cast<double>(step.span.ns()));
  }
  const double step = median(steps), wait = median(waits);
  if (wait < std::max(kWaitingNs, kWaitingShare * step) ||
      profile.stretches.empty())
    return;
  profile.step.loader_ns = static_cast<std::int64_t>(step);
  remove_wait(profile, static_cast<std::int64_t>(wait));
}

}  // namespace sheaf::plan
