#include "sheaf/train/setup/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sheaf::train {

Schedule::Schedule(const RunConfig& config, std::int64_t steps_per_epoch)
    : schedule_(config.schedule),
      rate_(config.optimizer.learning_rate),
      steps_per_epoch_(static_cast<double>(steps_per_epoch)),
      warmup_steps_(std::round(schedule_.warmup_epochs * steps_per_epoch_)),
      total_steps_(static_cast<double>(config.epochs) * steps_per_epoch_) {}

double Schedule::rate(std::int64_t step) const {
  const auto now = static_cast<double>(step);
  if (now >= warmup_steps_) return rate_ * factor(now);
  const double low = schedule_.warmup_factor;
  return rate_ * (low + (1 - low) * (now + 1) / warmup_steps_);
}

double Schedule::factor(double step) const {
  if (schedule_.name == "step") {
    const double drops =
        std::floor(step / (schedule_.every * steps_per_epoch_));
    return std::pow(schedule_.factor, drops);
  }
  if (schedule_.name != "cosine") return 1;
  const double length = std::max(1.0, total_steps_ - warmup_steps_);
  const double done = std::min(1.0, (step - warmup_steps_) / length);
  const double low = schedule_.final_factor;
  return low + (1 - low) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

}  // namespace sheaf::train
