#include "sheaf/train/loop/non_finite_guard.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/train/files/from_root.hpp"
#include "sheaf/train/step/non_finite.hpp"

namespace sheaf::train {
namespace {

// Place of values after the exchange, which depend on values of all ranks.
constexpr int kAfterExchange = 100;

// The rank with the cause at the lowest place; texts.size() if no rank found a
// cause.
std::size_t rank_of_cause(
    const std::vector<std::string>& texts,
    const std::vector<std::vector<std::int64_t>>& places) {
  std::size_t found = texts.size();
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    if (!texts[rank].empty() &&
        (found == texts.size() || places[rank][0] < places[found][0]))
      found = rank;
  return found;
}

}  // namespace

void NonFiniteGuard::refuse_step(const data::Batch& batch) {
  if (session_.config().on_non_finite == "skip") {
    ++state_.totals.skipped_steps;
    ++state_.totals.open_skipped;
    return;
  }
  stop(concat("the loss or a gradient of step ", state_.step, " (epoch ",
              state_.epoch + 1, ", batch ", state_.batch + 1,
              ") is not finite; the weights were not updated"),
       find_cause(batch));
}

// If no rank's passes show the cause, sums over pieces or ranks may have
// overflowed.
NonFiniteCause NonFiniteGuard::find_cause(const data::Batch& batch) {
  Learner& learner = session_.learner();
  NonFiniteCause mine = learner.find_non_finite(batch, state_.step);
  if (!mine.text.empty()) return mine;
  const std::string name = learner.parameters().find_non_finite_gradient();
  if (name.empty()) return mine;
  return {concat("the gradient of '", name,
                 "' after the exchange, although each rank's own was finite"),
          kAfterExchange};
}

void NonFiniteGuard::stop(const std::string& what,
                          const NonFiniteCause& mine) const {
  const comm::Group& group = session_.group();
  const auto texts = texts_of_all(group, mine.text);
  const auto places = from_all(group, /*numbers=*/1, [&] {
    return std::vector<std::int64_t>{mine.place};
  });
  const std::size_t found = rank_of_cause(texts, places);
  from_root(group, [&]() -> std::string {
    const auto names = checkpoints_.names();
    throw NonFiniteError(concat(
        what, ". ",
        found == texts.size()
            ? std::string("No cause was found when the step was repeated")
            : concat("Found first on rank ", found, ": ", texts[found]),
        ". ",
        names.empty() ? std::string("There is no checkpoint yet")
                      : concat("The last checkpoint is ", names.back()),
        ". Check the data, lower the learning rate or set clip_norm; "
        "on_non_finite=skip skips such steps"));
  });
  throw InternalError("unreachable");
}

void NonFiniteGuard::check_weights() const {
  if (!session_.checks_finite()) return;
  const std::string mine =
      session_.learner().network().find_non_finite_weight();
  const auto states = from_all(session_.group(), 1, [&] {
    return std::vector<std::int64_t>{mine.empty() ? 0 : 1};
  });
  const bool are_finite =
      std::all_of(states.begin(), states.end(),
                  [](const auto& one) { return one[0] == 0; });
  if (are_finite) return;
  stop(concat("the weights after step ", state_.step - 1,
              " are not finite, and are not saved"),
       {mine.empty() ? "" : concat("the weight or buffer '", mine, "'"),
        /*place=*/0});
}

}  // namespace sheaf::train
