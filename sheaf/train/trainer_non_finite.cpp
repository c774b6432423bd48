// Steps whose loss or gradients are not finite: on_non_finite.
//
// Ranks agree on it in the sums that they exchange in each step, before the
// weights change. To stop, all make the step's passes again to find its cause.
#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/train/from_root.hpp"
#include "sheaf/train/non_finite.hpp"
#include "sheaf/train/trainer_run.hpp"

namespace sheaf::train {

void TrainerRun::refuse_step(const data::Batch& batch, Metrics& metrics) {
  if (config_.on_non_finite == "skip") {
    metrics.take_back();
    before_step_->put_back();
    ++state_.totals.skipped_steps;
    ++state_.totals.open_skipped;
    return;
  }
  std::string mine = learner_->find_non_finite(batch, state_.step);
  if (mine.empty()) {
    const std::string name = learner_->find_non_finite_gradient();
    if (!name.empty())
      mine = concat("the gradient of '", name,
                    "' after the exchange, though each rank's own is finite");
  }
  stop_as_not_finite(
      concat("the loss or a gradient of step ", state_.step, " (epoch ",
             state_.epoch + 1, ", batch ", state_.batch + 1,
             ") is not finite; the weights are those before the step"),
      mine);
}

// A cause that one rank has found by itself goes before what all see after the
// exchange.
void TrainerRun::stop_as_not_finite(const std::string& what,
                                    const std::string& mine) const {
  const std::vector<std::string> all = texts_of_all(group_, mine);
  const auto is_own = [](const std::string& text) {
    return !text.empty() && text.find("after the exchange") == text.npos;
  };
  auto found = std::find_if(all.begin(), all.end(), is_own);
  if (found == all.end())
    found = std::find_if(all.begin(), all.end(),
                         [](const auto& text) { return !text.empty(); });
  from_root(group_, [&]() -> std::string {
    const auto names = checkpoints_->names();
    throw NonFiniteError(concat(
        what, ". ",
        found == all.end()
            ? std::string("No cause was found when the step was made again")
            : concat("First on rank ", found - all.begin(), ": ", *found),
        ". ",
        names.empty() ? std::string("There is no checkpoint yet")
                      : concat("The last checkpoint is ", names.back()),
        ". Check the data, lower the learning rate or set clip_norm; "
        "on_non_finite=skip leaves such steps out"));
  });
  throw InternalError("unreachable");
}

void TrainerRun::check_finite_weights() const {
  const std::string mine = learner_->find_non_finite_weight();
  const auto states = from_all(group_, 1, [&] {
    return std::vector<std::int64_t>{mine.empty() ? 0 : 1};
  });
  const bool are_finite =
      std::all_of(states.begin(), states.end(),
                  [](const auto& one) { return one[0] == 0; });
  if (are_finite) return;
  stop_as_not_finite(
      concat("the weights after step ", state_.step - 1,
             " are not finite, and are not saved"),
      mine.empty() ? "" : concat("the weight or buffer '", mine, "'"));
}

}  // namespace sheaf::train
