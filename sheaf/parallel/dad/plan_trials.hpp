#pragma once
// Runs candidate plans in turns in the first steps, to find the fastest: a
// prediction cannot resolve differences of 10 %.

#include <cstddef>
#include <vector>

namespace sheaf::parallel {

class PlanTrials {
 public:
  PlanTrials() = default;  // over before it begins
  // Each turn is `passes` timed passes after one to warm up.
  PlanTrials(std::size_t plans, int passes) : ms_(plans), passes_(passes) {}

  bool is_over() const { return turn_ >= kRounds * ms_.size(); }
  // The plan whose turn it is.
  std::size_t plan() const { return turn_ % ms_.size(); }

  // One pass with that plan.
  void add(double ms);
  bool is_turn_over() const { return done_ > passes_; }
  void next_turn();
  void give_up() { turn_ = kRounds * ms_.size(); }

  // The median of each plan's passes, this rank's; infinite without any.
  std::vector<double> median_ms() const;

 private:
  // More than one, for machines that are busy now and then.
  static constexpr std::size_t kRounds = 2;

  std::vector<std::vector<double>> ms_;  // by plan
  int passes_ = 0;
  std::size_t turn_ = 0;
  int done_ = 0;  // passes of this turn
};

// The number of passes that it takes to compare two plans, by the predicted
// time of one: more of short ones, which vary more.
int passes_for(double predicted_ms);

// The plan to keep, from the times of all plans: the first, unless another is
// clearly faster.
std::size_t fastest_plan(const std::vector<double>& ms);

}  // namespace sheaf::parallel
