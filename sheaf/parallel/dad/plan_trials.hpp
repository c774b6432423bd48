#pragma once
// Runs candidate plans interleaved in the first steps, to find the fastest: a
// prediction cannot resolve differences of 10 %.

#include <cstddef>
#include <vector>

namespace sheaf::parallel {

class PlanTrials {
 public:
  PlanTrials() = default;  // no trials: is_over() is true
  // A turn consists of one warm-up pass and `passes` timed passes.
  PlanTrials(std::size_t plans, int passes) : ms_(plans), passes_(passes) {}

  bool is_over() const { return turn_ >= kRounds * ms_.size(); }
  // The plan of the current turn.
  std::size_t plan() const { return turn_ % ms_.size(); }

  // Adds the time of one pass with the current plan.
  void add(double ms);
  bool is_turn_over() const { return done_ > passes_; }
  void next_turn();
  void give_up() { turn_ = kRounds * ms_.size(); }

  // The median time of each plan on this rank; infinite without passes.
  std::vector<double> median_ms() const;

 private:
  // More than one round, because machines may be busy temporarily.
  static constexpr std::size_t kRounds = 2;

  std::vector<std::vector<double>> ms_;  // by plan
  int passes_ = 0;
  std::size_t turn_ = 0;
  int done_ = 0;  // number of passes in this turn
};

// The number of passes needed to compare two plans, from the predicted time of
// one pass: short passes vary more and need more repetitions.
int passes_for(double predicted_ms);

// The plan to keep, given the times of all plans: the first, unless another is
// clearly faster.
std::size_t fastest_plan(const std::vector<double>& ms);

}  // namespace sheaf::parallel
