#include "sheaf/cli/plan/plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/cli/plan/plan_bars.hpp"
#include "sheaf/cli/plan/plan_inputs.hpp"
#include "sheaf/plan/predict/side_work.hpp"

namespace sheaf::cli {
namespace {

using At = std::size_t;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double report_ms(std::int64_t ns) { return static_cast<double>(ns) * 1e-6; }
double mib(std::int64_t bytes) { return static_cast<double>(bytes) / 1048576; }

std::string device_of(const plan::WorkerKind& kind) {
  const std::string& name = kind.recorded->base().device_name;
  return name.empty() ? kind.recorded->model().device : name;
}

class ReportMaker {
 public:
  explicit ReportMaker(const PlanReport& report)
      : report_(report), cluster_(*report.cluster), chosen_(*report.chosen) {
    if (!report.measured.empty()) {
      measured_ = plan::read_measured(report.measured);
      find_measured_kind();
    }
  }

  report::PlanPage make() {
    const plan::StepProfile& base = cluster_.kinds[0].recorded->base();
    page_.title = concat("Plan for ",
                         base.model.name.empty() ? base.file : base.model.name);
    add_notes();
    for (const plan::WorkerKind& kind : cluster_.kinds)
      page_.devices.push_back(
          fmt::format("{} x {}", kind.count, device_label(kind)));
    for (const plan::UniformStep& one : chosen_.uniform)
      page_.precisions.push_back(to_string(one.precision));
    add_steps();
    for (At kind = 0; kind < cluster_.kinds.size(); ++kind) add_layers(kind);
    add_trade_offs();
    add_predicted();
    if (measured_) add_measured();
    add_graph();
    return std::move(page_);
  }

 private:
  void add_notes() {
    if (!chosen_.has_indicator) page_.notes.push_back(kNoStatistics);
    for (const plan::WorkerKind& kind : cluster_.kinds)
      if (!kind.recorded->base().scaled_from.empty())
        page_.notes.push_back(device_label(kind) + ": not measured");
    std::int64_t peak = 0;
    for (const plan::PhaseMemory& one : chosen_.step.memory)
      peak = std::max(peak, one.peak());
    if (peak == 0) page_.notes.push_back("the traces do not record memory use");
  }

  void find_measured_kind() {
    for (At i = 0; i < cluster_.kinds.size(); ++i)
      if (cluster_.kinds[i].recorded->base().device_name ==
          measured_->profile.device_name)
        measured_kind_ = i;
    plan::check_one_model(cluster_.kinds[measured_kind_].recorded->base(),
                          measured_->profile);
  }

  void add_steps() {
    for (const plan::UniformStep& one : chosen_.uniform)
      add_step(concat("all ", to_string(one.precision),
                      one.fits ? "" : " (does not fit)"),
               one.step, one.indicator);
    add_step("fastest", chosen_.fastest, chosen_.fastest_indicator);
    add_step("chosen", chosen_.step, chosen_.indicator);
    page_.steps.back().is_chosen = true;
    if (measured_) add_measured_step();
  }
  void add_step(const std::string& name, const plan::ClusterStep& step,
                double indicator) {
    report::PlanStep row{name, report_ms(step.ns), report_ms(step.exchange_ns),
                         {},   indicator,          false};
    for (const plan::PhaseMemory& one : step.memory)
      row.peak_mib.push_back(mib(one.peak()));
    page_.steps.push_back(std::move(row));
  }
  void add_measured_step() {
    report::PlanStep row{"chosen, measured",
                         report_ms(measured_->times.step.ns()),
                         kUnknown,
                         std::vector<double>(cluster_.kinds.size(), kUnknown),
                         kUnknown,
                         false};
    std::int64_t peak = 0;
    for (const auto& [phase, bytes] : measured_->profile.model.peak)
      peak = std::max(peak, bytes);
    if (peak > 0) row.peak_mib[measured_kind_] = mib(peak);
    page_.steps.push_back(std::move(row));
  }

  // The first trace of the model that has layer statistics.
  const plan::TracedModel& statistics() const {
    for (const plan::WorkerKind& kind : cluster_.kinds)
      for (const plan::Precision one : kind.recorded->precisions())
        if (has_statistics(kind.recorded->of(one).model, report_.indicator))
          return kind.recorded->of(one).model;
    return cluster_.kinds[0].recorded->model();
  }

  // A layer that is called several times has one row.
  void add_layers(At kind) {
    const plan::Recorded& recorded = *cluster_.kinds[kind].recorded;
    const plan::SideWork work(recorded);
    plan::Indicator indicator;
    if (chosen_.has_indicator)
      indicator = {statistics(), recorded.graph(), report_.indicator};
    std::map<std::string, At> rows;
    const auto& slots = recorded.graph().slots;
    for (At slot = 0; slot < slots.size(); ++slot) {
      if (slots[slot].layer.empty()) continue;
      const auto [at, is_new] =
          rows.try_emplace(slots[slot].layer, page_.layers.size());
      if (is_new) page_.layers.push_back(layer_of(kind, slots[slot]));
      report::PlanLayer& row = page_.layers[at->second];
      for (const plan::Precision one : recorded.precisions()) {
        row.ms[to_string(one)] += 1e-6 * work.ns(recorded.of(one), slot);
        if (chosen_.has_indicator)
          row.indicator[to_string(one)] = indicator.of(slots[slot].layer, one);
      }
    }
  }
  report::PlanLayer layer_of(At kind, const plan::Slot& slot) const {
    report::PlanLayer row;
    row.name = slot.layer;
    row.op = slot.op;
    row.depth = slot.depth;
    row.device = kind;
    row.precision = to_string(chosen_.plans[kind].of(slot.layer));
    const auto reason = chosen_.reasons[kind].find(slot.layer);
    if (reason != chosen_.reasons[kind].end()) row.reason = reason->second;
    const plan::ExchangePlan& routes = chosen_.exchange.plan;
    if (cluster_.workers() > 1 && routes.layers.contains(slot.layer))
      row.reason += concat(row.reason.empty() ? "" : "; ", "exchanged by ",
                           text_of(routes, routes.of(slot.layer)));
    return row;
  }

  void add_trade_offs() {
    if (!chosen_.has_indicator) return;
    const bool several = cluster_.kinds.size() > 1;
    for (const plan::TradeOff& one : chosen_.trade_offs) {
      std::string label = "fastest";
      if (!one.layer.empty())
        label =
            concat(one.layer,
                   several ? " on " + device_of(cluster_.kinds[one.kind]) : "",
                   " -> ", to_string(one.precision));
      page_.trade_offs.push_back(
          {label, report_ms(one.ns), one.indicator, one.is_kept});
    }
  }

  std::string prefix_of(At kind) const {
    if (cluster_.kinds.size() == 1) return "";
    return device_of(cluster_.kinds[kind]) + " ";
  }

  void add_predicted() {
    const auto predicted = plan::predict_timeline(cluster_, chosen_.plans);
    std::vector<NamedStep> steps;
    std::int64_t begin = std::numeric_limits<std::int64_t>::max();
    for (At kind = 0; kind < cluster_.kinds.size(); ++kind) {
      steps.push_back(NamedStep::predicted(*cluster_.kinds[kind].recorded,
                                           predicted.steps[kind],
                                           predicted.times[kind]));
      begin = std::min(begin, predicted.times[kind].step.begin_ns);
    }
    add_path(predicted, steps);
    report::PlanTimeline timeline;
    timeline.name = "predicted";
    timeline.step_ms = report_ms(chosen_.step.ns);
    for (At kind = 0; kind < steps.size(); ++kind)
      steps[kind].add_to(timeline, prefix_of(kind), begin);
    page_.timelines.push_back(std::move(timeline));
  }

  // Adds one row per label and lane on the critical path, longest first.
  void add_path(const plan::ClusterTimeline& predicted,
                std::vector<NamedStep>& steps) {
    std::map<std::tuple<std::string, std::string, report::PlanWork>, double>
        sums;
    for (const plan::PathPiece& one : predicted.path) {
      NamedStep& step = steps[one.rank];
      NamedStep::Label label{"left over from the previous step"};
      std::string where;
      if (one.kernel != plan::kNone) {
        const auto kernel = static_cast<At>(one.kernel);
        step.critical_kernels.insert(kernel);
        label = step.label_of_kernel(kernel);
        where =
            step.stream_name(predicted.steps[one.rank].kernels[kernel].stream);
      } else if (one.mark != plan::kNone) {
        const auto mark = static_cast<At>(one.mark);
        step.critical_marks.insert({one.thread, mark});
        label = step.label_of_mark(one.thread, mark);
        where = step.thread_name(one.thread);
      }
      sums[{label.name, prefix_of(one.rank) + where, label.work}] +=
          report_ms(one.span.ns());
    }
    for (const auto& [key, ms] : sums)
      page_.path.push_back(
          {std::get<0>(key), std::get<1>(key), std::get<2>(key), ms});
    std::stable_sort(page_.path.begin(), page_.path.end(),
                     [](const auto& a, const auto& b) { return a.ms > b.ms; });
  }

  void add_measured() {
    report::PlanTimeline timeline;
    timeline.name = "measured";
    timeline.step_ms = report_ms(measured_->times.step.ns());
    NamedStep::measured(*measured_)
        .add_to(timeline, prefix_of(measured_kind_),
                measured_->times.step.begin_ns);
    page_.timelines.push_back(std::move(timeline));
  }

  void add_graph() {
    const auto& slots = cluster_.kinds[0].recorded->graph().slots;
    std::vector<std::vector<plan::SlotTypes>> types;
    for (At kind = 0; kind < cluster_.kinds.size(); ++kind)
      types.push_back(
          cluster_.kinds[kind].recorded->types_under(chosen_.plans[kind]));
    for (At i = 0; i < slots.size(); ++i) {
      report::PlanNode node{slots[i].name,
                            slots[i].op,
                            !slots[i].layer.empty(),
                            slots[i].depth,
                            {}};
      for (At kind = 0; kind < types.size(); ++kind)
        node.precisions.push_back(
            to_string(node.is_layer ? chosen_.plans[kind].of(slots[i].layer)
                                    : types[kind][i].result));
      page_.nodes.push_back(std::move(node));
      for (const plan::SlotInput& input : slots[i].inputs)
        if (input.slot >= 0)
          page_.edges.push_back({static_cast<At>(input.slot), i});
    }
  }

  const PlanReport& report_;
  const plan::Cluster& cluster_;
  const plan::ChosenPlan& chosen_;
  std::optional<plan::MeasuredStep> measured_;
  At measured_kind_ = 0;
  report::PlanPage page_;
};

}  // namespace

report::PlanPage plan_report(const PlanReport& report) {
  return ReportMaker(report).make();
}

}  // namespace sheaf::cli
