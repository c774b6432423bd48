#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>

#include "sheaf/base/error.hpp"
#include "sheaf/base/table.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/plan/plan_inputs.hpp"
#include "sheaf/plan/predict/side_work.hpp"

namespace sheaf::cli {
namespace {

struct CompareArguments {
  PlanInputs inputs;
  std::string plan;
  std::string measured;
  std::string format = "text";
  std::size_t most_rows = 20;
};

double off_by_percent(double predicted, double measured) {
  return measured > 0 ? 100 * (predicted - measured) / measured : 0;
}

std::int64_t measured_peak(const plan::StepProfile& profile) {
  std::int64_t peak = 0;
  for (const auto& [phase, bytes] : profile.model.peak)
    peak = std::max(peak, bytes);
  return peak;
}

// Adds the operators with the largest absolute prediction error.
void add_operators(const plan::StepProfile& measured,
                   const std::vector<double>& predicted, std::size_t most,
                   Table& table) {
  const auto taken = plan::slot_work_ns(measured);
  std::vector<std::size_t> order(predicted.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto error = [&](std::size_t i) {
    return std::abs(predicted[i] - taken[i]);
  };
  std::sort(order.begin(), order.end(),
            [&](auto a, auto b) { return error(a) > error(b); });
  order.resize(std::min(order.size(), most));
  for (const std::size_t i : order)
    table.add_row({measured.graph.slots[i].name, "ms", predicted[i] * 1e-6,
                   taken[i] * 1e-6, off_by_percent(predicted[i], taken[i])});
}

void compare(const CompareArguments& arguments) {
  const TableFormat format = parse_table_format(arguments.format);
  std::deque<plan::Recorded> recorded;
  plan::Cluster cluster = make_cluster(arguments.inputs, recorded);
  use_exchange_of(arguments.plan, arguments.inputs, cluster);
  SHEAF_CHECK(recorded.size() == 1, "traces of ", recorded.size(),
              " devices were given; compare needs traces of one device");
  const auto plan =
      plan::read_precision_plan(arguments.plan, recorded[0].base().device_name);
  recorded[0].check_layers(plan);
  const plan::StepProfile measured = plan::read_profile(arguments.measured);
  plan::check_one_model(recorded[0].base(), measured);
  const plan::ClusterStep step = plan::predict_step(cluster, {plan});
  Table table({{.name = "what", .align = Align::kLeft},
               {.name = "unit", .align = Align::kLeft},
               {.name = "predicted"},
               {.name = "measured"},
               {.name = "error", .unit = "%", .key = "error_percent"}});
  const auto add = [&](const char* what, const char* unit, double predicted,
                       double taken) {
    table.add_row(
        {what, unit, predicted, taken, off_by_percent(predicted, taken)});
  };
  add("step", "ms", static_cast<double>(step.ns) * 1e-6,
      static_cast<double>(measured.step.measured_ns) * 1e-6);
  add("peak memory", "MiB",
      static_cast<double>(step.memory[0].peak()) / 1048576,
      static_cast<double>(measured_peak(measured)) / 1048576);
  add_operators(measured,
                plan::mixed_work_ns(
                    plan::mix_step(recorded[0], plan, cluster.kinds[0].casts),
                    recorded[0].graph().slots.size()),
                arguments.most_rows, table);
  table.print(std::cout, format);
}

}  // namespace

void add_compare_command(CLI::App& app) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand(
      "compare", "Compare the prediction for a plan with a trace of its run");
  command->add_option("--plan", arguments->plan, "plan.json")->required();
  command
      ->add_option("--measured", arguments->measured,
                   "Trace of the run: sheaf trace CONFIG --plan plan.json")
      ->required();
  arguments->inputs.add_to(*command);
  command->add_option("--rows", arguments->most_rows,
                      "Number of operators to list, largest error first");
  command->add_option("--format", arguments->format, "text, csv or json");
  command->callback([arguments] { compare(*arguments); });
}

}  // namespace sheaf::cli
