#include "sheaf/train/plan_setup.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/cast_kernels.hpp"
#include "sheaf/parallel/precision.hpp"
#include "sheaf/topo/host.hpp"
#include "sheaf/train/from_root.hpp"

namespace sheaf::train {

void check_plan(const RunConfig& config, const torch::nn::Module& module,
                const comm::Group& group, const torch::Device& device) {
  if (config.plan.empty()) return;
  const auto check = [&](const std::string& text) {
    try {
      parallel::check_plan(
          module,
          plan::parse_precision_plan(text, config.plan, name_of(device)),
          device);
    } catch (const UsageError& error) {
      throw UsageError(
          concat(config.where("plan"), config.plan, ": ", error.what()));
    }
  };
  // First on rank 0, so that what is wrong for all is told once.
  const std::string text = from_root(group, [&] {
    const std::string read = plan::read_plan_text(config.plan);
    check(read);
    return read;
  });
  from_all(group, 0, [&] {
    check(text);
    return std::vector<std::int64_t>{};
  });
}

plan::PrecisionPlan plan_for_all(const RunConfig& config,
                                 const comm::Group& group,
                                 const torch::Device& device) {
  const std::string text =
      from_root(group, [&] { return plan::read_plan_text(config.plan); });
  return plan::parse_precision_plan(text, config.plan, name_of(device));
}

std::string name_of(const torch::Device& device) {
  if (!device.is_cuda()) return topo::processor_name();
  return parallel::cast_kernels::device_name(std::max<int>(0, device.index()));
}

}  // namespace sheaf::train
