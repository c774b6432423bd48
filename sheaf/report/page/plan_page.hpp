#pragma once
// The HTML report of a plan: its cost, the reasons, and a timeline of the step.
// The input is plain data: this layer does not depend on the planner.

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sheaf::report {

// A row of the table of plans.
struct PlanStep {
  std::string name;  // "all f32", "fastest", "chosen"
  double step_ms = 0;
  double exchange_ms = 0;
  std::vector<double> peak_mib;  // by device
  double indicator = 0;
  bool is_chosen = false;
};

struct PlanLayer {
  std::string name;
  std::string op;
  int depth = 0;
  std::size_t device = 0;
  std::string precision;
  std::string reason;
  std::map<std::string, double> ms;         // by precision
  std::map<std::string, double> indicator;  // by precision
};

// A plan that the planner tried.
struct PlanTradeOff {
  std::string label;  // "conv2 -> f32"
  double step_ms = 0;
  double indicator = 0;
  bool is_kept = true;
};

enum class PlanWork {
  kForward,
  kBackward,
  kCast,
  kExchange,
  kOptimizer,
  kOther,
};

struct PlanBar {
  std::size_t lane = 0;
  std::string name;
  double begin_ms = 0;  // since the beginning of the step
  double ms = 0;
  PlanWork work = PlanWork::kOther;
  bool is_critical = false;  // on the critical path
};

struct PlanTimeline {
  std::string name;                // "predicted", "measured"
  std::vector<std::string> lanes;  // names, shown together across timelines
  std::vector<PlanBar> bars;
  double step_ms = 0;
};
constexpr std::size_t kMaxPlanBars = 4000;  // per timeline; keeps the longest

// An entry of the critical path.
struct PlanPathRow {
  std::string name;
  std::string where;  // lane
  PlanWork work = PlanWork::kOther;
  double ms = 0;
};

struct PlanNode {
  std::string name;
  std::string op;
  bool is_layer = false;
  int depth = 0;
  std::vector<std::string> precisions;  // by device
};

struct PlanPage {
  std::string title;
  std::vector<std::string> notes{};     // missing data, with the reason
  std::vector<std::string> devices;     // "2 x Tesla T4"
  std::vector<std::string> precisions;  // highest first
  std::vector<PlanStep> steps;
  std::vector<PlanLayer> layers;  // by device, then in forward order
  std::vector<PlanTradeOff> trade_offs;
  std::vector<PlanTimeline> timelines;
  std::vector<PlanPathRow> path;
  std::vector<PlanNode> nodes;  // in the order of the forward pass
  std::vector<std::pair<std::size_t, std::size_t>> edges;  // node indices
};

// Returns a self-contained HTML file. Empty parts are omitted. All texts are
// escaped, so they cannot become code of the page. Throws UsageError like
// check_echarts().
std::string plan_page(const PlanPage& page);

// The data that the page's script draws, as JSON.
std::string plan_page_data(const PlanPage& page);

}  // namespace sheaf::report
