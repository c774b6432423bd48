// sheaf predict: replays recorded steps and predicts their time, also under
// another plan, batch, device or number of workers.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/base/table.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/plan/plan_inputs.hpp"
#include "sheaf/plan/graph/measured_step.hpp"
#include "sheaf/plan/graph/operator_map.hpp"
#include "sheaf/plan/graph/step_replay.hpp"

namespace sheaf::cli {
namespace {

constexpr const char* kPredictFooter =
    "Examples:\n"
    "  sheaf predict trace.json.gz           replay each step\n"
    "  sheaf predict trace.json --from 4     predict all steps from "
    "ProfilerStep#4\n"
    "  sheaf predict rank0.json rank1.json --together\n"
    "Reads traces of sheaf trace and torch.profiler, plain or gzip-compressed.";

struct PredictArguments {
  PlanInputs inputs;
  std::string plan;
  std::string precision;
  plan::WhatIf change;
  std::string from;
  std::string format = "text";
  bool shows_unmatched = false;
  bool is_together = false;
};

double ms_of(std::int64_t ns) { return static_cast<double>(ns) * 1e-6; }

// "4" or "ProfilerStep#4".
std::size_t step_named(const plan::Trace& trace, const std::string& name) {
  std::string known;
  for (std::size_t i = 0; i < trace.steps.size(); ++i) {
    const std::string& label = trace.steps[i].label;
    if (label == name || label.ends_with("#" + name)) return i;
    known += (i ? ", " : "") + label;
  }
  throw UsageError(
      concat("the trace has no step ", name, "; its steps are ", known));
}

void describe(const plan::Trace& trace, const std::string& file,
              bool shows_unmatched) {
  const plan::StepTrace& step = trace.steps.back();
  const plan::OperatorMap map = plan::map_operators(step, trace.names);
  fmt::print("{}: ", file);
  if (trace.header.rank >= 0)
    fmt::print("rank {} of {}, ", trace.header.rank, trace.header.world_size);
  if (!trace.header.device_name.empty())
    fmt::print("{}, ", trace.header.device_name);
  const std::size_t all = map.backward + map.accumulated;
  fmt::print(
      "{} events, {} steps. {}: {} operators, {} kernels, {} of {} "
      "backward functions matched.\n",
      trace.header.events, trace.steps.size(), step.label,
      step.operators.size(), step.kernels.size(), all - map.unmatched.size(),
      all);
  const auto gradients = plan::ddp_gradient_bytes(step, trace.names);
  if (!gradients.empty()) {
    std::string buckets;
    for (const std::int64_t bytes : plan::ddp_bucket_bytes(gradients))
      buckets += (buckets.empty() ? "" : ", ") +
                 format_bytes(static_cast<std::uint64_t>(bytes));
    fmt::print("{} gradients, sizes of DDP's buckets: {}\n", gradients.size(),
               buckets);
  }
  if (!shows_unmatched) return;
  for (const std::string& note : plan::make_graph(step, trace.names).notes)
    fmt::print("not matched: {}\n", note);
  for (const auto& [of, reason] : map.unmatched)
    fmt::print("not matched: {}: {}\n",
               trace.names[step.operators[static_cast<std::size_t>(of)].name],
               reason);
}

void add_rows(const plan::Trace& trace, const PredictArguments& arguments,
              const std::string& file, Table& table) {
  std::vector<plan::StepGraph> graphs;
  for (const plan::StepTrace& step : trace.steps)
    graphs.push_back(plan::make_graph(step, trace.names));
  std::optional<std::size_t> from;
  if (!arguments.from.empty()) from = step_named(trace, arguments.from);
  plan::Replay replay;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const double measured = ms_of(graphs[i].measured_ns);
    const double predicted = ms_of(replay.run(graphs[from.value_or(i)]));
    table.add_row({file, trace.steps[i].label, measured, predicted,
                   100 * (predicted - measured) / measured,
                   ms_of(replay.backlog_ns())});
  }
}

// Replays the traces of all ranks of one run together.
void add_rows_together(const std::vector<plan::Trace>& traces,
                       const PredictArguments& arguments, Table& table) {
  std::size_t count = traces[0].steps.size();
  for (const plan::Trace& trace : traces)
    count = std::min(count, trace.steps.size());
  std::vector<plan::Replay> ranks(traces.size());
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<plan::StepGraph> graphs;
    std::vector<const plan::StepGraph*> steps;
    for (const plan::Trace& trace : traces)
      graphs.push_back(plan::make_graph(trace.steps[i], trace.names));
    for (const plan::StepGraph& graph : graphs) steps.push_back(&graph);
    const auto times = plan::collective_ns(steps);
    const auto together = plan::Replay::run_together(
        ranks, steps, [&](std::size_t number) { return times[number]; });
    for (std::size_t rank = 0; rank < traces.size(); ++rank) {
      const double measured = ms_of(graphs[rank].measured_ns);
      const double predicted = ms_of(together.step_ns[rank]);
      table.add_row({arguments.inputs.traces[rank], traces[rank].steps[i].label,
                     measured, predicted,
                     100 * (predicted - measured) / measured,
                     ms_of(ranks[rank].backlog_ns())});
    }
  }
}

bool asks_what_if(const PredictArguments& arguments) {
  return !arguments.plan.empty() || !arguments.precision.empty() ||
         arguments.inputs.batch > 0 || arguments.change.is_any() ||
         arguments.inputs.describes_workers();
}

plan::PrecisionPlan plan_for(const PredictArguments& arguments,
                             const plan::Recorded& recorded) {
  if (!arguments.plan.empty())
    return plan::read_precision_plan(arguments.plan,
                                     recorded.base().device_name);
  plan::PrecisionPlan plan;
  plan.other = arguments.precision.empty()
                   ? recorded.model().precision
                   : plan::parse_precision(arguments.precision);
  return plan;
}

// Data exchanged in a step: the whole buffers of all-reduces, and the blocks of
// all workers in all-gathers.
double exchanged_mib(const plan::Cluster& cluster,
                     const std::vector<plan::PrecisionPlan>& plans) {
  if (cluster.workers() == 1) return 0;
  double bytes = 0;
  for (const double one :
       plan::collective_bytes(plan::step_of(cluster, 0, plans)))
    bytes += one;
  return bytes / 1048576;
}

void print_estimates(const PredictArguments& arguments,
                     const plan::Cluster& cluster) {
  if (arguments.change.compute != 1 || arguments.change.memory != 1 ||
      arguments.inputs.batch > 0 || !arguments.inputs.devices.empty())
    fmt::print(stderr,
               "sheaf: times are scaled by rule, not measured: layers by "
               "compute speed, the rest by memory bandwidth\n");
  const plan::ExchangePlan& routes = cluster.exchange.routes;
  if (cluster.workers() > 1 &&
      plan::to_string(routes).find("rank-dad") != std::string::npos)
    fmt::print(stderr,
               "sheaf: the time to compute low-rank factors is estimated from "
               "the matrix products in the trace\n");
}

// Predicts a step under conditions that were not recorded.
void predict_what_if(const PredictArguments& arguments) {
  const TableFormat format = parse_table_format(arguments.format);
  std::deque<plan::Recorded> recorded;
  plan::Cluster cluster = make_cluster(arguments.inputs, recorded);
  use_exchange_of(arguments.plan, arguments.inputs, cluster);
  std::vector<plan::PrecisionPlan> plans;
  for (plan::WorkerKind& kind : cluster.kinds) {
    plans.push_back(plan_for(arguments, *kind.recorded));
    kind.recorded->check_layers(plans.back());
    kind.change.compute *= arguments.change.compute;
    kind.change.memory *= arguments.change.memory;
  }
  const plan::ClusterStep step = plan::predict_step(cluster, plans);
  const double exchanged = exchanged_mib(cluster, plans);
  Table table({{.name = "device", .align = Align::kLeft},
               {.name = "workers"},
               {.name = "recorded", .unit = "ms", .key = "measured_ms"},
               {.name = "predicted", .unit = "ms", .key = "predicted_ms"},
               {.name = "waits", .unit = "ms", .key = "waits_ms"},
               {.name = "exchange", .unit = "ms", .key = "exchange_ms"},
               {.name = "exchanged", .unit = "MiB", .key = "exchanged_mib"},
               {.name = "peak", .unit = "MiB", .key = "peak_mib"}});
  for (std::size_t i = 0; i < plans.size(); ++i)
    table.add_row({device_label(cluster.kinds[i]), cluster.kinds[i].count,
                   ms_of(recorded[i].base().step.measured_ns),
                   ms_of(step.kind_ns[i]), ms_of(step.waits_ns[i]),
                   ms_of(step.exchange_ns), exchanged,
                   static_cast<double>(step.memory[i].peak()) / 1048576});
  table.print(std::cout, format);
  print_estimates(arguments, cluster);
}

void predict(const PredictArguments& arguments) {
  if (asks_what_if(arguments)) return predict_what_if(arguments);
  SHEAF_CHECK(!arguments.inputs.traces.empty(), "pass at least one trace");
  const TableFormat format = parse_table_format(arguments.format);
  Table table({{.name = "trace", .align = Align::kLeft},
               {.name = "step", .align = Align::kLeft},
               {.name = "measured", .unit = "ms", .key = "measured_ms"},
               {.name = "predicted", .unit = "ms", .key = "predicted_ms"},
               {.name = "error", .unit = "%", .key = "error_percent"},
               {.name = "backlog", .unit = "ms", .key = "backlog_ms"}});
  std::vector<plan::Trace> traces;
  for (const std::string& file : arguments.inputs.traces) {
    plan::Trace trace = plan::read_steps(file);
    if (format == TableFormat::kText)
      describe(trace, file, arguments.shows_unmatched);
    if (arguments.is_together)
      traces.push_back(std::move(trace));
    else
      add_rows(trace, arguments, file, table);
  }
  if (arguments.is_together) add_rows_together(traces, arguments, table);
  table.print(std::cout, format);
}

}  // namespace

void add_predict_command(CLI::App& app) {
  auto arguments = std::make_shared<PredictArguments>();
  CLI::App* command = app.add_subcommand(
      "predict", "Replay the steps of a trace and predict their time");
  command->footer(kPredictFooter);
  arguments->inputs.add_to(*command);
  command->add_option("--plan", arguments->plan,
                      "Predict the step under this plan.json");
  command->add_option("--precision", arguments->precision,
                      "Predict the step with all layers in this precision");
  command
      ->add_option("--compute", arguments->change.compute,
                   "Factor on the compute speed of the device")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--bandwidth", arguments->change.memory,
                   "Factor on the memory bandwidth of the device")
      ->check(CLI::PositiveNumber);
  command->add_option("--from", arguments->from,
                      "Predict every step from this one");
  command->add_option("--format", arguments->format, "text, csv or json");
  command->add_flag("--unmatched", arguments->shows_unmatched,
                    "List the events that could not be matched, with reasons");
  command
      ->add_flag("--together", arguments->is_together,
                 "The traces are of the ranks of one run: a collective begins "
                 "when the last rank arrives")
      ->excludes("--from");
  command->callback([arguments] { predict(*arguments); });
}

}  // namespace sheaf::cli
