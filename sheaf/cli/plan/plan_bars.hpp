#pragma once
// A step's threads and streams as bars for a page.

#include <set>
#include <string>
#include <vector>

#include "sheaf/plan/graph/measured_step.hpp"
#include "sheaf/plan/predict/cluster_timeline.hpp"
#include "sheaf/report/page/plan_page.hpp"

namespace sheaf::cli {

// A step whose marks and kernels are known by their slots.
class NamedStep {
 public:
  // `sides` are those of marks, by thread: 2 * slot, and one more backward.
  using Sides = std::vector<std::vector<std::int32_t>>;
  NamedStep(const plan::StepGraph& step, const plan::ReplayTimes& times,
            const plan::ModelGraph& graph, Sides sides,
            plan::MarkFlags is_cast);

  // Of a predicted step, and of a recorded one.
  static NamedStep predicted(const plan::Recorded& recorded,
                             const plan::StepGraph& step,
                             const plan::ReplayTimes& times);
  static NamedStep measured(const plan::MeasuredStep& measured);

  struct Label {
    std::string name;
    report::PlanWork work = report::PlanWork::kOther;
    bool operator==(const Label&) const = default;
  };
  Label label_of_mark(std::size_t thread, std::size_t mark) const;
  Label label_of_kernel(std::size_t kernel) const;
  // "thread", "thread 2", "stream", "exchange".
  std::string thread_name(std::size_t thread) const;
  std::string stream_name(std::size_t stream) const;

  // Numbers on the critical path.
  std::set<std::pair<std::size_t, std::size_t>> critical_marks;
  std::set<std::size_t> critical_kernels;

  // Adds lanes and bars, with times since `begin_ns`. What one slot does
  // without a pause is one bar.
  void add_to(report::PlanTimeline& timeline, const std::string& prefix,
              std::int64_t begin_ns) const;

 private:
  class Lane;
  void add_thread(std::size_t thread, Lane& lane) const;
  void add_stream(std::size_t stream, Lane& lane) const;

  const plan::StepGraph& step_;
  const plan::ReplayTimes& times_;
  const plan::ModelGraph& graph_;
  Sides sides_;
  plan::MarkFlags is_cast_;
  std::vector<std::pair<std::size_t, std::size_t>> launch_;  // by kernel
  std::int64_t backward_end_ns_ = 0;  // of the threads' backward work
};

}  // namespace sheaf::cli
