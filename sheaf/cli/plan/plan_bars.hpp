#pragma once
// Draws the threads and streams of a step as bars of a timeline.

#include <set>
#include <string>
#include <vector>

#include "sheaf/plan/graph/measured_step.hpp"
#include "sheaf/plan/predict/cluster.hpp"
#include "sheaf/report/page/plan_page.hpp"

namespace sheaf::cli {

// A step in which each mark and kernel is labeled with its slot of the model
// graph.
class NamedStep {
 public:
  // The side of each mark, by thread: 2 * slot for forward, 2 * slot + 1 for
  // backward, plan::kNone outside the model.
  using Sides = std::vector<std::vector<std::int32_t>>;
  NamedStep(const plan::StepGraph& step, const plan::ReplayTimes& times,
            const plan::ModelGraph& graph, Sides sides,
            plan::MarkFlags is_cast);

  // Label a predicted step, and a recorded one. The arguments must outlive the
  // result.
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
  // Lane names: "thread", "thread 2", "stream", "exchange".
  std::string thread_name(std::size_t thread) const;
  std::string stream_name(std::size_t stream) const;

  // Marks (thread, mark) and kernels on the critical path.
  std::set<std::pair<std::size_t, std::size_t>> critical_marks;
  std::set<std::size_t> critical_kernels;

  // Adds lanes and bars, with times relative to `begin_ns`. Work of one slot
  // without a pause becomes one bar.
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
  // By kernel: the mark (thread, mark) that launched it.
  std::vector<std::pair<std::size_t, std::size_t>> launch_;
  std::int64_t backward_end_ns_ = 0;  // last backward mark of any thread
};

}  // namespace sheaf::cli
