#include "sheaf/train/plan_setup.hpp"

#include <sstream>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/precision.hpp"
#include "sheaf/train/from_root.hpp"

namespace sheaf::train {
namespace {

// A line for each layer, and one for all others.
std::string lines_of(const plan::PrecisionPlan& plan) {
  std::string text = concat(plan::to_string(plan.other), "\n");
  for (const auto& [layer, precision] : plan.layers)
    text += concat(plan::to_string(precision), " ", layer, "\n");
  return text;
}

plan::PrecisionPlan plan_of(const std::string& lines) {
  plan::PrecisionPlan plan;
  std::istringstream in(lines);
  std::string line;
  std::getline(in, line);
  plan.other = plan::parse_precision(line);
  while (std::getline(in, line)) {
    const std::size_t space = line.find(' ');
    plan.layers[line.substr(space + 1)] =
        plan::parse_precision(line.substr(0, space));
  }
  return plan;
}

}  // namespace

void check_plan(const RunConfig& config, const torch::nn::Module& module) {
  if (config.plan.empty()) return;
  const auto plan = plan::read_precision_plan(config.plan);
  try {
    parallel::check_plan(module, plan, torch::Device(config.device));
  } catch (const UsageError& error) {
    throw UsageError(
        concat(config.where("plan"), config.plan, ": ", error.what()));
  }
}

plan::PrecisionPlan plan_for_all(const RunConfig& config,
                                 const comm::Group& group) {
  return plan_of(from_root(
      group, [&] { return lines_of(plan::read_precision_plan(config.plan)); }));
}

}  // namespace sheaf::train
