// sheaf plan: chooses the precision of each layer and how its gradient is
// exchanged.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/base/table.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/plan/plan_inputs.hpp"
#include "sheaf/cli/plan/plan_report.hpp"
#include "sheaf/plan/choose/planner.hpp"
#include "sheaf/report/page/page.hpp"

namespace sheaf::cli {
namespace {

constexpr const char* kPlanFooter =
    "Examples:\n"
    "  sheaf plan f32.json bf16.json --memory 12G -o plan.json\n"
    "  sheaf plan v100.f32.json t4.f32.json t4.f16.json --workers 4,4 \\\n"
    "    --topology 4x2 --machine machine.json\n"
    "  sheaf plan f32.json f16.json --devices v100.yaml,t4.yaml \\\n"
    "    --traced-on h200.yaml --workers 4,4    (traces scaled to v100, t4)\n"
    "  sheaf plan f32.json bf16.json --report plan.html\n"
    "  sheaf plan graph f32.json --format dot > model.dot\n"
    "  sheaf train run.yaml --plan plan.json\n"
    "Record traces with sheaf trace CONFIG --precision …";

struct PlanArguments {
  PlanInputs inputs;
  std::string memory;
  double slack_percent = 0;
  std::vector<std::string> precisions;
  std::vector<std::string> fixed;    // LAYER=PRECISION
  std::vector<std::string> allowed;  // inexact exchange methods
  std::string indicator = "variance";
  std::string output = "plan.json";
  std::string format = "text";
  std::string report;    // file of the HTML report
  std::string measured;  // trace of a run under the plan, for the report
};

double in_ms(std::int64_t ns) { return static_cast<double>(ns) * 1e-6; }

// Uses the methods given with --exchange; otherwise lets the planner choose
// among the exact methods and those given with --allow.
void choose_routes(const PlanArguments& arguments,
                   plan::PlannerOptions& options) {
  SHEAF_CHECK(arguments.allowed.empty() || arguments.inputs.exchange.empty(),
              "--allow adds exchange methods for the planner to choose from, "
              "but --exchange fixes the choice; pass only one of them");
  if (!arguments.inputs.exchange.empty()) options.exchange.reset();
  for (const std::string& text : arguments.allowed) {
    const plan::ExchangePlan one = plan::parse_exchange(text);
    SHEAF_CHECK(one.layers.empty(),
                "--allow takes exchange methods, such as rank-dad:4, not ",
                text);
    auto& routes = options.exchange->routes;
    if (std::find(routes.begin(), routes.end(), one.other) == routes.end())
      routes.push_back(one.other);
    if (one.other == plan::Route::kRankDad) options.exchange->rank = one.rank;
  }
}

plan::PlannerOptions options_of(const PlanArguments& arguments) {
  plan::PlannerOptions options;
  if (!arguments.memory.empty())
    options.memory_limit =
        static_cast<std::int64_t>(parse_bytes(arguments.memory));
  SHEAF_CHECK(arguments.slack_percent >= 0, "--slack must be 0 or more, not ",
              arguments.slack_percent);
  options.slack = arguments.slack_percent / 100;
  for (const std::string& text : arguments.precisions)
    options.precisions.push_back(plan::parse_precision(text));
  for (const std::string& text : arguments.fixed) {
    const auto equals = text.rfind('=');
    SHEAF_CHECK(equals != std::string::npos,
                "--fix takes LAYER=PRECISION, not ", text);
    options.fixed.layers[text.substr(0, equals)] =
        plan::parse_precision(text.substr(equals + 1));
  }
  options.indicator = plan::parse_indicator(arguments.indicator);
  choose_routes(arguments, options);
  return options;
}

std::string memory_text(const plan::ClusterStep& step) {
  std::string text;
  for (const plan::PhaseMemory& one : step.memory)
    text += (text.empty() ? "" : ", ") +
            format_bytes(static_cast<std::uint64_t>(
                std::max<std::int64_t>(0, one.peak())));
  return text;
}

void print_steps(const plan::ChosenPlan& chosen, TableFormat format) {
  Table table({{.name = "plan", .align = Align::kLeft},
               {.name = "step", .unit = "ms", .key = "step_ms"},
               {.name = "exchange", .unit = "ms", .key = "exchange_ms"},
               {.name = "peak memory", .key = "memory", .align = Align::kLeft},
               {.name = "indicator"}});
  const auto add = [&](const std::string& name, const plan::ClusterStep& step,
                       double indicator) {
    table.add_row(
        {name, in_ms(step.ns), in_ms(step.exchange_ns), memory_text(step),
         chosen.has_indicator ? fmt::format("{:.4g}", indicator) : "unknown"});
  };
  for (const plan::UniformStep& one : chosen.uniform)
    add(concat("all ", plan::to_string(one.precision),
               one.fits ? "" : " (does not fit)"),
        one.step, one.indicator);
  add("fastest", chosen.fastest, chosen.fastest_indicator);
  add("chosen", chosen.step, chosen.indicator);
  table.print(std::cout, format);
}

void print_layers(const plan::Cluster& cluster,
                  const plan::ChosenPlan& chosen) {
  for (std::size_t kind = 0; kind < chosen.plans.size(); ++kind) {
    const plan::Recorded& recorded = *cluster.kinds[kind].recorded;
    fmt::print("\n{} x {}\n", cluster.kinds[kind].count,
               device_label(cluster.kinds[kind]));
    Table table({{.name = "layer", .align = Align::kLeft},
                 {.name = "precision", .align = Align::kLeft},
                 {.name = "reason", .align = Align::kLeft}});
    for (const plan::Slot& slot : recorded.graph().slots)
      if (const auto found = chosen.reasons[kind].find(slot.layer);
          !slot.layer.empty() && found != chosen.reasons[kind].end())
        table.add_row({slot.layer,
                       plan::to_string(chosen.plans[kind].of(slot.layer)),
                       found->second});
    table.print(std::cout, TableFormat::kText);
  }
}

// Prints the exchange method of all layers, the exceptions with their reasons,
// and the predicted step time of each uniform choice.
void print_exchange(const plan::Cluster& cluster,
                    const plan::ChosenExchange& chosen) {
  const plan::ExchangePlan& plan = chosen.plan;
  fmt::print("\nexchange of {} workers: {}{}\n", cluster.workers(),
             plan::text_of(plan, plan.other),
             plan.layers.empty() ? " for all layers" : ", except these layers");
  if (!plan.layers.empty()) {
    Table table({{.name = "layer", .align = Align::kLeft},
                 {.name = "exchange", .align = Align::kLeft},
                 {.name = "reason", .align = Align::kLeft}});
    for (const std::string& layer :
         plan::factor_layer_names(cluster.kinds[0].recorded->base())) {
      if (!plan.layers.contains(layer)) continue;
      const auto reason = chosen.reasons.find(layer);
      table.add_row(
          {layer, plan::text_of(plan, plan.of(layer)),
           reason == chosen.reasons.end() ? "as specified" : reason->second});
    }
    table.print(std::cout, TableFormat::kText);
  }
  if (chosen.uniform.empty()) return;
  fmt::print("{:.2f} ms per step; with one method for all supported layers:",
             in_ms(chosen.ns));
  for (const auto& [name, ns] : chosen.uniform)
    fmt::print("{} {:.2f} ({})", name == chosen.uniform[0].first ? "" : ",",
               in_ms(ns), name);
  fmt::print("\n");
}

// The HTML report, or "" if --report is not given.
std::string page_of_plan(const PlanArguments& arguments,
                         const plan::Cluster& cluster,
                         const plan::ChosenPlan& chosen) {
  if (arguments.report.empty()) return "";
  return report::plan_page(plan_report(
      {&cluster, &chosen, plan::parse_indicator(arguments.indicator),
       arguments.measured}));
}

void make_plan(const PlanArguments& arguments) {
  const TableFormat format = parse_table_format(arguments.format);
  const plan::PlannerOptions options = options_of(arguments);
  SHEAF_CHECK(arguments.measured.empty() || !arguments.report.empty(),
              "--measured needs --report plan.html; to compare without a "
              "report, use sheaf plan compare");
  if (!arguments.report.empty()) report::check_echarts();
  std::deque<plan::Recorded> recorded;
  Stopwatch watch;
  plan::Cluster cluster = make_cluster(arguments.inputs, recorded);
  const double read_s = 1e-3 * watch.lap();
  const plan::ChosenPlan chosen = plan::choose_plan(cluster, options);
  const double chosen_s = 1e-3 * watch.lap();
  cluster.exchange.routes = chosen.exchange.plan;
  const std::string page = page_of_plan(arguments, cluster, chosen);
  write_file_atomically(arguments.output, plan_text(cluster, chosen));
  if (!page.empty()) write_file_atomically(arguments.report, page);
  print_steps(chosen, format);
  if (!chosen.has_indicator) fmt::print(stderr, "sheaf: {}\n", kNoStatistics);
  if (format != TableFormat::kText) return;
  print_layers(cluster, chosen);
  if (cluster.workers() > 1) print_exchange(cluster, chosen.exchange);
  fmt::print("\nRead the traces in {:.2f} s and chose the plan in {:.2f} s.\n",
             read_s, chosen_s);
  fmt::print("Wrote the plan to {}. To run it: sheaf train CONFIG --plan {}\n",
             arguments.output, arguments.output);
  if (!page.empty()) fmt::print("Wrote the report to {}.\n", arguments.report);
}

void print_graph(const std::string& trace, const std::string& format) {
  const plan::StepProfile profile = plan::read_profile(trace);
  SHEAF_CHECK(format == "json" || format == "dot", "--format is json or dot, ",
              "not ", format);
  std::cout << (format == "json" ? plan::json_of(profile.graph)
                                 : plan::dot_of(profile.graph))
            << std::flush;
}

void add_graph_command(CLI::App& app) {
  struct GraphArguments {
    std::string trace, format = "json";
  };
  auto arguments = std::make_shared<GraphArguments>();
  CLI::App* command = app.add_subcommand(
      "graph", "Print the layers and operators of the model as JSON or dot");
  command->add_option("trace", arguments->trace, "Trace of the model")
      ->required();
  command->add_option("--format", arguments->format, "json or dot");
  command->callback(
      [arguments] { print_graph(arguments->trace, arguments->format); });
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = app.add_subcommand(
      "plan", "Choose the precision and the gradient exchange of each layer");
  add_graph_command(*command);
  add_compare_command(*command);
  command->footer(kPlanFooter);
  command->require_subcommand(0, 1);
  arguments->inputs.add_to(*command);
  command->add_option("--memory", arguments->memory,
                      "Limit on the peak memory of a worker, such as 12G");
  command->add_option("--slack", arguments->slack_percent,
                      "Percent by which the plan may be slower than the "
                      "fastest one");
  command
      ->add_option("--precisions", arguments->precisions,
                   "Precisions that layers may have (default: all that were "
                   "traced)")
      ->delimiter(',');
  command->add_option("--fix", arguments->fixed,
                      "LAYER=PRECISION, the fixed precision of a layer");
  command
      ->add_option("--allow", arguments->allowed,
                   "Also allow exchange methods that are not exact: half, "
                   "rank-dad:4")
      ->delimiter(',');
  command->add_option("--indicator", arguments->indicator,
                      "Sensitivity indicator: variance, published, weight or "
                      "hessian");
  command->add_option("-o,--output", arguments->output,
                      "File to write the plan to");
  command->add_option("--report", arguments->report,
                      "Write an HTML report of the plan, such as plan.html");
  command->add_option("--measured", arguments->measured,
                      "Trace of a run under the plan, for the report");
  command->add_option("--format", arguments->format, "text, csv or json");
  command->callback([arguments, command] {
    if (command->get_subcommands().empty()) make_plan(*arguments);
  });
}

}  // namespace sheaf::cli
